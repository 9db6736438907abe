"""A search with a supernet resumes to the same result, keeps to the limits, and fits its budget to the time limit."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from cases.stripes import StopError, stop_at  # noqa: E402
from cases.waves import BOARD, NUMBERS, RUNGS, SPACE, TARGET, waves  # noqa: E402

from tinynas import halving, one_shot, search_options, search_report  # noqa: E402
from tinynas.arch import Arch, macs, to_json  # noqa: E402
from tinynas.costs import Costs, Target, costs  # noqa: E402
from tinynas.evolution import Evolution  # noqa: E402
from tinynas.one_shot import SupernetBudget, budget_within, choose_width, from_record, needed_seconds, paper_budget  # noqa: E402
from tinynas.search_report import card, search_record  # noqa: E402
from tinynas.searching import SearchResult, search  # noqa: E402
from tinynas.settings import SearchOptions  # noqa: E402
from tinynas.space import SearchSpace, arch_of, sample, small_images, smallest  # noqa: E402
from tinynas.training_run import TrainingRun  # noqa: E402
from tinynas.workers import Workers  # noqa: E402
from tinyweave import api  # noqa: E402
from tinyweave.devices import find  # noqa: E402
from tinyweave.ir import CompileError  # noqa: E402
from tinyweave.report.schema import faults  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_worker", "few_of_each_width")
OPTIONS = SearchOptions(supernet_budget=NUMBERS, rungs=RUNGS)


@pytest.fixture(scope="module")
def few_of_each_width() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(one_shot, "SAMPLES_PER_WIDTH", 2)
        yield


@pytest.fixture(scope="module")
def found(one_worker: Workers, few_of_each_width: None, tmp_path_factory: pytest.TempPathFactory) -> SearchResult:
    return search(waves(400), SPACE, TARGET, tmp_path_factory.mktemp("found"), OPTIONS)


@pytest.mark.emulator
def test_the_deployed_network_has_the_costs_that_the_search_reported(found: SearchResult) -> None:
    profile, run = found.deployment.profile, json.loads((found.folder / "search.json").read_text())
    assert found.deployment.verification.ok and found.fits and found.accuracy["test_int8"] > 0.6
    assert found.costs.ram == profile.ram and found.costs.flash == pytest.approx(profile.flash, rel=0.01)
    assert run["strategy"] == "supernet" and len(run["widths"]) == 1 and from_record(run["supernet"]) == NUMBERS
    assert len(found.candidates) == NUMBERS.evolution.evaluations and all(cost.fit for _, cost in found.candidates)
    rungs = [[each["candidate"] for each in found.trained if each.get("rung") == number] for number in (None, 0, 1)]
    assert sorted(rungs[0]) == list(range(8)) and rungs[1] == [0, 1] and len(rungs[2]) == 1
    inherited = [(each["candidate"], each["accuracy"]) for each in found.trained if "rung" not in each]
    assert [share for _, share in sorted(inherited)] == sorted((share for _, share in inherited), reverse=True), "the best"


def test_the_record_has_the_supernet_and_the_pareto_front(found: SearchResult) -> None:
    run = json.loads((found.folder / "search.json").read_text())
    record = search_record(found, run)
    assert faults(record, "search") == "" and record["strategy"] == "supernet"
    stage_one = {key: run[key] for key in ("widths", "share", "enough")}
    measured = sum("rung" not in each for each in found.trained)
    trained = {"warm_up": 1, "epochs": 2, "measured": measured, "folder": None}
    assert measured >= 4 and record["trained"]["supernet"] == trained | stage_one
    final = [each["epochs"] for each in found.trained if "rung" in each]  # a network with 100 % is not trained again
    assert record["trained"]["epochs"] == 3 + sum(final) and len(final) == 3 and sum(final) in (2, 4)
    assert (run["share"] >= 0.8) == (run["enough"] is None)
    said = f"stage one chose width {run['widths'][0]:g}, at which {100 * run['share']:.0f} % of the sampled networks fit"
    assert said in card(record) and ("too few at every width" in card(record)) == (run["enough"] is not None)
    record["trained"]["supernet"] |= {"share": 0.25, "enough": {"ram": 1_234_567, "latency_ms": 12.3456789}}
    assert "25 % of the sampled networks fit: too few at every width; enough would fit within 1,234,567 B of RAM, 12.35 ms" in (
        card(record)
    )
    assert found.candidates[record["chosen"]][0] == found.arch
    points = [(each["accuracy"], -each["ram"]) for each in record["candidates"]]
    front = [points[each["candidate"]] for each in record["front"]]
    assert set(front) == {p for p in points if not any(q != p and q[0] >= p[0] and q[1] >= p[1] for q in points)}
    assert all(to_json(found.candidates[each["candidate"]][0]) == each["arch"] for each in record["front"])
    assert "trained: 2 networks, of them 2 of the 8 that were measured with the weights of a supernet" in card(record)


def test_a_short_record_has_the_whole_front_and_the_chosen_network(
    found: SearchResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = json.loads((found.folder / "search.json").read_text())
    whole = search_record(found, run)
    monkeypatch.setattr(search_report, "RECORDED", 1)
    short = search_record(found, run)
    assert len(short["candidates"]) < len(whole["candidates"])
    for record in (whole, short):
        record["front"] = [(each["arch"], record["candidates"][each["candidate"]]) for each in record["front"]]
        record["chosen"] = record["candidates"][record["chosen"]]
    assert short["front"] == whole["front"] and short["chosen"] == whole["chosen"]


@pytest.mark.sweep  # the usual tests interrupt the search by halving, the training of a supernet and the evolution
@pytest.mark.emulator
def test_an_interrupted_search_resumes_to_the_same_result(found: SearchResult, tmp_path: Path) -> None:
    places = ("training the supernet", 1), ("first gen", 2), ("generation 1", 6), ("rung 1", 1)
    for title, count in places:
        with pytest.raises(StopError):
            search(waves(400), SPACE, TARGET, tmp_path, OPTIONS, progress=stop_at(title, count))
    resumed = search(waves(400), SPACE, TARGET, tmp_path, OPTIONS)
    assert resumed.trained == found.trained and resumed.arch == found.arch and resumed.accuracy == found.accuracy
    assert resumed.candidates == found.candidates
    files = [each.folder / "network.tflite" for each in (resumed, found)]
    assert files[0].read_bytes() == files[1].read_bytes()
    with pytest.raises(CompileError, match="holds a search with another"):
        search(waves(400), SPACE, TARGET, tmp_path, SearchOptions(strategy="halving", minutes=1))
    assert search_options.strategy_for("sensors", SearchOptions(), tmp_path, None) == "supernet", "the folder's"


@pytest.mark.emulator
def test_a_trained_supernet_serves_another_device(found: SearchResult, tmp_path: Path) -> None:
    said, other = list[str](), Target(find("nrf52840"), api.limits_of(find("nrf52840"), ram="4k", flash="64k"))
    options = SearchOptions(supernet=str(found.folder), supernet_budget=NUMBERS, rungs=RUNGS)
    result = search(waves(400), SPACE, other, tmp_path, options, progress=lambda what, *_: said.append(what))
    assert result.fits and not any(what.startswith("training the supernet: loss") for what in said)
    files = [(folder / "supernet.pt").read_bytes() for folder in (tmp_path, found.folder)]
    assert files[0] == files[1]
    run, theirs = (json.loads((folder / "search.json").read_text()) for folder in (tmp_path, found.folder))
    assert run["widths"] == theirs["widths"] and run["device"] == "nrf52840" != theirs["device"]
    record = search_record(result, run)
    assert faults(record, "search") == "" and f"the weights of the supernet in '{found.folder}', out of" in card(record)
    assert record["trained"]["epochs"] == sum(each.get("epochs", 0) for each in result.trained), "without the supernet's"
    with pytest.raises(CompileError, match="holds a search with another supernet folder"):
        search(waves(400), SPACE, other, tmp_path, SearchOptions(supernet_budget=NUMBERS, rungs=RUNGS))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("nothing", "'.*' holds no search by supernet; give the folder of one, or leave out supernet"),
        ("halving", "'.*' holds no search by supernet"),
        ("not JSON", "'.*' holds no search by supernet"),
        ("untrained", "the supernet in '.*' is not trained yet; let that search go on, or leave out supernet"),
        ("samples", "was trained with other samples; give the same --task, --data and --set as there"),
        ("space", "is of another search space, or another version of tinyweave; give the same"),
        ("version", "is of another search space, or another version of tinyweave"),
        ("width", "is of another search space, or another version of tinyweave"),
        ("weights", r"supernet.pt' is damaged, or the supernet of another space; delete it, or give another folder"),
        ("groups", r"supernet.pt' is damaged, or the supernet of another space"),
        ("strategy", "halving has no use for the supernet of another search"),
        ("detection", "a supernet does not support detection"),
    ],
)
def test_a_folder_without_a_supernet_for_the_search_is_refused(
    found: SearchResult, tmp_path: Path, broken: str, message: str
) -> None:
    shutil.copytree(found.folder, given := tmp_path / "given")
    data, space, run = waves(400), SPACE, json.loads((given / "search.json").read_text())
    if broken == "nothing":
        shutil.rmtree(given)
    elif broken == "untrained":
        (given / "supernet.pt").unlink()
    elif broken == "weights":
        (given / "supernet.pt").write_bytes((given / "supernet.pt").read_bytes()[:1000])
    elif broken == "samples":
        data = waves(401)
    elif broken == "detection":
        data = replace(data, kind="detection")
    elif broken in ("space", "groups"):
        groups = replace(SPACE.groups[0], width=24), *SPACE.groups[1:]
        space = replace(SPACE, name="other") if broken == "space" else replace(SPACE, groups=groups)
    else:
        changes: dict[str, Any] = {"version": {"version": 1}, "width": {"widths": [0.7]}, "halving": {"supernet": None}}
        text = json.dumps(run | changes.get(broken, {}))
        (given / "search.json").write_text(text if broken != "not JSON" else text[:-9])
    options = SearchOptions("halving" if broken == "strategy" else "auto", supernet=str(given), minutes=1)
    with pytest.raises(CompileError, match=message):
        search(data, space, TARGET, tmp_path / "new", options)
    assert not list((tmp_path / "new").glob("*"))


def test_fine_tuning_starts_from_the_weights_of_the_supernet(found: SearchResult, tmp_path: Path) -> None:
    """The starting weights of the first candidate equal those extracted from the stored supernet."""
    from tinynas.learning.supernet import Supernet

    width = json.loads((found.folder / "search.json").read_text())["widths"]
    supernet = Supernet(SearchSpace(**{**vars(SPACE), "widths": tuple(width)}), 2)
    supernet.load_state_dict(torch.load(found.folder / "supernet.pt", weights_only=True))
    start = torch.load(found.folder / "weights" / "start-0.pt", weights_only=True)
    ours = supernet.extract(found.candidates[0][0]).state_dict()
    assert set(ours) == set(start)
    assert all(torch.equal(ours[name], start[name]) for name in ours if "running" not in name and "num_batches" not in name)
    assert any(not torch.equal(ours[name], start[name]) for name in ours if "running_var" in name), "calibrated"
    assert not list(found.folder.glob("*.epoch"))


def test_the_progress_of_a_supernet_counts_the_epochs_of_both_trainings(
    one_worker: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = list[tuple[str, int, int]]()
    monkeypatch.setattr("tinynas.workers.POLL_S", 0.01)
    monkeypatch.setattr(halving, "POLL_S", 0.0)
    halving.save_data(waves(100), tmp_path / halving.DATA)
    run = TrainingRun(progress=lambda *told: shown.append(told))
    one_shot.train_supernet(waves(100), SPACE, SupernetBudget(4, 8, Evolution()), tmp_path, run, workers=one_worker, threads=1)
    assert shown[0] == ("training the supernet", 0, 12) and shown[-1] == ("training the supernet", 12, 12)
    done = [count for text, count, _ in shown if text.startswith("training the supernet: loss ")]
    assert done == sorted(done) and 0 < done[-1] < 12 and (tmp_path / "supernet.pt").is_file()


def test_the_default_strategy_is_halving_unless_there_are_objectives(tmp_path: Path) -> None:
    def chosen(strategy: str = "auto", against: tuple[str, ...] = ()) -> str:
        return search_options.strategy_for("sensors", SearchOptions(strategy, against=against), tmp_path, None)

    assert chosen() == chosen("halving") == "halving"
    assert chosen("supernet") == "supernet" == chosen(against=("ram",))
    for wrong, message in ((("luck",), "strategy=luck is unknown"), (("auto", ("watts",)), "against=watts is unknown")):
        with pytest.raises(CompileError, match=message):
            chosen(*wrong)
    with pytest.raises(CompileError, match="halving has one objective"):
        chosen("halving", ("ram",))


def test_the_budget_grows_with_the_time_limit_up_to_that_of_the_paper() -> None:
    costs = {"warm_up": 10.0, "epochs": 20.0, "evolution": 1.0}
    paper = paper_budget("images")
    assert budget_within(1e9, costs, "images", 2) == paper == SupernetBudget(150, 300, Evolution())
    assert budget_within(0.1, costs, "sounds", 1) == SupernetBudget(1, 1, Evolution(4, 2, 2, 2, 0.1, 1))
    for minutes in (15, 60, 90):
        numbers = budget_within(60 * minutes, costs, "images", 2)
        assert from_record(json.loads(json.dumps(asdict(numbers)))) == numbers
        took = numbers.warm_up * 10 + numbers.epochs * 20 + numbers.evolution.evaluations * 1 / 2
        assert needed_seconds(numbers, costs, 2) == pytest.approx(took) and 0.75 * 60 * minutes < took < 1.1 * 60 * minutes


def test_the_width_whose_fitting_networks_have_most_macs_is_searched(one_worker: Workers) -> None:
    space, classes = small_images(), 10
    loose = Target(BOARD, api.limits_of(BOARD, flash="1m"))
    space = SearchSpace(**{**vars(space), "widths": (0.5, 1.0)})
    assert choose_width(space, loose, classes, one_worker) == width_choice(space, 1.0, 1.0)
    least = costs(arch_of(space, smallest(space), classes), loose)
    tight = Target(BOARD, api.limits_of(BOARD, flash=least.flash + 4000))
    assert choose_width(space, tight, classes, one_worker)[0].widths == (0.5,)
    with pytest.raises(CompileError, match=r"the smallest network of the space .* exceeds flash"):
        choose_width(space, Target(BOARD, api.limits_of(BOARD, flash=least.flash // 2)), classes, one_worker)


def width_choice(space: SearchSpace, width: float, share: float) -> tuple[SearchSpace, dict[str, Any]]:
    return replace(space, widths=(width,)), {"widths": [width], "share": share, "enough": None}


def test_a_width_at_which_few_networks_fit_is_not_searched(one_worker: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """If less than 80 % of the wide networks fit, the narrow ones are searched although they have fewer MACs."""
    monkeypatch.setattr(one_shot, "SAMPLES_PER_WIDTH", 10)
    space = replace(SPACE, widths=(1.0, 0.5))
    drawn = {width: _of_width(space, width) for width in space.widths}

    def chosen(count: int, **options: float) -> tuple[SearchSpace, dict[str, Any]]:
        fit = {*drawn[0.5], *drawn[1.0][:count]}

        def fake(target: Target, arch: Arch) -> Costs:
            return Costs(0, 0, macs(arch), None, {} if arch in fit else {"ram": 1})

        monkeypatch.setattr(one_shot, "quick_costs", fake)
        return choose_width(space, TARGET, 2, one_worker, **options)

    assert [chosen(count) for count in (1, 7)] == [width_choice(space, 0.5, 1.0)] * 2
    assert chosen(8) == width_choice(space, 1.0, 0.8)
    assert chosen(3, feasible=0.3)[0].widths == (1.0,) and chosen(3, feasible=0.4)[0].widths == (0.5,)


def test_limits_that_make_a_width_feasible_are_reported(one_worker: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no width is feasible, the one at which most networks fit is searched, with limits that make it feasible."""
    monkeypatch.setattr(one_shot, "SAMPLES_PER_WIDTH", 10)
    all_costs = [costs(arch, Target(BOARD, api.limits_of(BOARD))) for arch in _of_width(SPACE, 0.5)]
    limits = {name: sorted(getattr(cost, name) for cost in all_costs)[4] for name in ("ram", "flash")}
    space, choice = choose_width(SPACE, Target(BOARD, api.limits_of(BOARD, **limits)), 2, one_worker)
    enough = choice["enough"]
    assert space.widths == (0.5,) and 0 < choice["share"] < 0.8 and enough != limits
    assert set(enough) == {"ram", "flash"} and all(enough[name] >= limits[name] for name in limits)
    _, again = choose_width(SPACE, Target(BOARD, api.limits_of(BOARD, **enough)), 2, one_worker)
    assert again["enough"] is None and again["share"] >= 0.8
    with pytest.raises(CompileError, match=r"a share of 1\.5 of the networks is out of range"):
        search(waves(100), SPACE, TARGET, Path("nowhere"), SearchOptions(feasible=1.5))


def _of_width(space: SearchSpace, width: float) -> list[Arch]:
    rng = random.Random(f"{space.name} {width}")
    return [arch_of(space, sample(space, rng, width=width), 2) for _ in range(10)]
