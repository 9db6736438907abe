"""A search with a supernet within a time limit: its plan depends on no clock, and it ends as a search by halving does."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from cases.stripes import StopError  # noqa: E402
from cases.waves import SPACE, TARGET, waves  # noqa: E402

from tinynas import halving, one_shot, search_options, searching  # noqa: E402
from tinynas.arch import is_fitted  # noqa: E402
from tinynas.budget import FIXED, PLANNING, Budget, step_seconds  # noqa: E402
from tinynas.costs import Costs  # noqa: E402
from tinynas.evolution import Evolution  # noqa: E402
from tinynas.learning import train  # noqa: E402
from tinynas.one_shot import SupernetBudget, from_record, needed_seconds, paper_budget  # noqa: E402
from tinynas.search_report import card, search_record  # noqa: E402
from tinynas.searching import SearchResult, search  # noqa: E402
from tinynas.settings import SearchOptions  # noqa: E402
from tinynas.space import arch_of, largest, smallest  # noqa: E402
from tinynas.workers import Workers  # noqa: E402
from tinyweave.report.schema import faults  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_worker")


@pytest.fixture(scope="module", params=[1, 2])
def timed(request: pytest.FixtureRequest, one_worker: Workers, tmp_path_factory: pytest.TempPathFactory) -> SearchResult:
    """Return the result of the shortest search by supernet, with a comparison on the validation part, or in two folds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(one_shot, "SAMPLES_PER_WIDTH", 2)
        patch.setattr(searching, "machine_factor", lambda _: 1000.0)
        patch.setattr(halving, "folds_of", lambda _: request.param)
        return search(waves(400), SPACE, TARGET, tmp_path_factory.mktemp("timed"), SearchOptions("supernet", minutes=0.1))


@pytest.mark.emulator
def test_a_timed_search_by_supernet_ends_as_one_by_halving(timed: SearchResult) -> None:
    """Its finalists are the plain network, an evolved one with the supernet's weights, and those without training."""
    run = json.loads((timed.folder / "search.json").read_text())
    archs, measured = [arch for arch, _ in timed.candidates], [each for each in timed.trained if "rung" not in each]
    assert run["rungs"] == [[2, 1]] and run["sampled"] == 1 and len(run["candidates"]) == 4 and run["evolved"]
    assert [is_fitted(arch) for arch in archs[:4]] == [False, False, True, True] and not any(map(is_fitted, archs[4:]))
    least = len(archs) - 4 + 1
    assert least <= len(measured) <= 8 and archs[1] in {archs[each["candidate"]] for each in measured}
    finalists = [each for each in timed.trained if each.get("rung") == 0]
    assert {each["candidate"] for each in finalists} == {0, 1, 2, 3} and all(("loss" in each) for each in finalists)
    final = timed.trained[-1]
    assert (final["rung"], final["weights"]) == (1, f"weights/final-{final['candidate']}.pt")
    assert (timed.folder / "weights" / "start-1.pt").is_file() and not (timed.folder / "weights" / "start-2.pt").exists()
    record = search_record(timed, run)
    assert faults(record, "search") == "" and record["trained"]["networks"] == 2 and record["trained"]["computed"] == 2
    trials = len(run["recipes"]) * prod(run["trial"])
    assert record["trained"]["epochs"] == trials + 2 * run["folds"] + 2 + (0 if is_fitted(timed.arch) else 1)
    said = f"trained: 2 networks, of them 1 of the {len(measured)} that were measured with the weights of a supernet, out of "
    assert f"- {said}" in card(record) and "computed from the samples without training: 2" in card(record)


@pytest.mark.emulator
def test_a_timed_search_by_supernet_resumes_to_the_same_result(
    timed: SearchResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its evolution has ended, but not all of its candidates are trained; nothing that ended is done again."""
    monkeypatch.setattr(searching, "machine_factor", lambda _: pytest.fail("the budget is known"))
    run = json.loads((timed.folder / "search.json").read_text())
    monkeypatch.setattr(halving, "folds_of", lambda _: run["folds"])
    shutil.copytree(timed.folder, tmp_path / "run")
    entries = (tmp_path / "run" / "results.jsonl").read_text().splitlines()
    (tmp_path / "run" / "results.jsonl").write_text("\n".join(entries[:2]))
    again = search(waves(400), SPACE, TARGET, tmp_path / "run", SearchOptions("supernet", minutes=0.1))
    assert again.trained == timed.trained and again.candidates == timed.candidates and again.accuracy == timed.accuracy
    for name in ("search.json", "supernet.pt", "evolution.jsonl", "network.tflite"):
        assert (tmp_path / "run" / name).read_bytes() == (timed.folder / name).read_bytes()


@pytest.mark.emulator
@pytest.mark.parametrize("folds", [1, 2])
def test_an_evolved_network_is_trained_finally_from_weights_of_the_supernet(
    timed: SearchResult, folds: int, tmp_path: Path, one_worker: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a cross-validation it begins with random weights, since the supernet has seen the samples; the final one does not."""
    shutil.copytree(timed.folder, tmp_path / "run")
    for name in ("results.jsonl", "trials.jsonl"):
        (tmp_path / "run" / name).unlink()
    began = list[tuple[int, str | None]]()

    def train_one(arch: str, *_: Any, start: str | None, end: str, **__: Any) -> halving.Score:
        number = {"0-0.pt": 0, "0-1.pt": 1, "final-1.pt": 9}.get(Path(end).name, -1)
        began.append((number, start and Path(start).name))
        Path(end).touch()
        return halving.Score(0.99, 0.1) if number == 1 else halving.Score(0.5, 0.9)

    monkeypatch.setattr(halving, "train_one", train_one)
    run = json.loads((timed.folder / "search.json").read_text()) | {"folds": folds}
    this = searching._Search(
        waves(400), SPACE, TARGET, tmp_path / "run", SearchOptions("supernet", minutes=0.1), one_worker, None, lambda *_: None
    )
    _, records = searching._halve(this, run, lambda arch: Costs(0, 0, 0, None, {}))
    of_rung = {0: "trial-sensors_shifted.pt", 1: "start-1.pt"} if folds == 1 else {0: None, 1: None}
    assert {number: start for number, start in began if number in of_rung} == of_rung
    assert began[-1] == (9, "0-1.pt" if folds == 1 else "start-1.pt") and records[-1]["candidate"] == 1


def planned(folder: Path, options: SearchOptions) -> tuple[dict[str, Any], list[str]]:
    """Return the record of a search's plan, and what it told before it trained anything."""
    said = list[str]()

    def progress(what: str, done: int, total: int) -> None:
        said.append(what)
        if what.startswith(("training the supernet", "recipes")):
            raise StopError

    with pytest.raises(StopError):
        search(waves(400), SPACE, TARGET, folder, options, progress=progress)
    return json.loads((folder / "search.json").read_text()), said


@pytest.mark.emulator
def test_the_plan_of_a_search_does_not_depend_on_the_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that is ten times as busy all clocks show ten times as much; the plan is the same, byte for byte."""
    monkeypatch.setattr(searching, "machine_factor", lambda _: 1.0)
    by_halving, by_supernet = (SearchOptions(name, minutes=3, processes=1) for name in ("halving", "supernet"))
    first, said = planned(tmp_path / "quiet halving", by_halving)
    assert f"{searching.NEEDS} {first['minutes']:.1f} minutes" in said and 2.5 < first["minutes"] < 3.3
    quiet, said = planned(tmp_path / "quiet supernet", by_supernet)
    for name in ("perf_counter", "process_time", "time"):
        real = getattr(time, name)
        monkeypatch.setattr(time, name, lambda real=real: 10 * real())
    for options in (by_halving, by_supernet):
        planned(tmp_path / f"busy {options.strategy}", options)
        files = [(tmp_path / f"{load} {options.strategy}" / "search.json").read_bytes() for load in ("quiet", "busy")]
        assert files[0] == files[1]
    budget, limit = from_record(quiet["supernet"]), Budget(**quiet["limit"])
    space = replace(SPACE, widths=tuple(quiet["widths"]))
    supernet = needed_seconds(budget, one_shot.predicted_seconds(space, 2, limit, 1), 1)
    assert budget.warm_up > 1 and budget.epochs > 1 and 0.2 * 180 < supernet < 0.34 * 180
    assert limit.seconds == pytest.approx(180 - supernet) and limit.folds == halving.folds_of(waves(400)) > 1
    (told,) = (each for each in said if each.startswith(searching.NEEDS))
    assert 2.5 < float(told.split()[-2]) < 3.3


@pytest.mark.emulator
@pytest.mark.parametrize("factor", [1.05, 1.15])
def test_a_search_that_took_longer_than_predicted_says_so(
    timed: SearchResult, factor: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, told = Path(shutil.copytree(timed.folder, tmp_path / "again")), list[str]()
    minutes = json.loads((folder / "search.json").read_text())["minutes"]
    clock = iter([7.0, 7.0 + 60 * factor * minutes])
    monkeypatch.setattr(searching, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    options = SearchOptions("supernet", minutes=0.1)
    again = search(waves(400), SPACE, TARGET, folder, options, progress=lambda what, *_: told.append(what))
    late = f"{search_options.TOOK} {factor * minutes:.1f} minutes, and {minutes:.1f} were predicted"
    assert (late in told) == (factor > 1.1) == any(each.startswith(search_options.TOOK) for each in told)
    assert again.accuracy == timed.accuracy and minutes > 1000 * FIXED / 60


@pytest.mark.emulator
def test_a_supernet_without_enough_time_says_so_before_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "machine_factor", lambda _: 20.0)
    run, said = planned(tmp_path / "short", SearchOptions("supernet", minutes=12, processes=1))
    (told,) = (each for each in said if each.startswith(search_options.TOO_SHORT))
    match = re.fullmatch(
        r".*: the supernet is trained for (\d+) of 200 epochs, and needs at least 20; give --minutes (\d+), or .*", told
    )
    assert match and int(match[1]) == run["supernet"]["epochs"] < 20
    run, said = planned(tmp_path / "long", SearchOptions("supernet", minutes=int(match[2]), processes=1))
    assert run["supernet"]["epochs"] >= 20 and not any(each.startswith(search_options.TOO_SHORT) for each in said)
    run, said = planned(tmp_path / "almost", SearchOptions("supernet", minutes=int(match[2]) - 1.5, processes=1))
    assert run["supernet"]["epochs"] < 20, "no more minutes than necessary"


def test_the_command_prints_what_a_search_says_and_the_command_for_another_device(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tinynas import commands, verbs
    from tinyweave.cli import main

    def told(*_: Any, progress: Callable[[str, int, int], None], **__: Any) -> Any:
        for what in (f"{searching.NEEDS} 7 minutes", f"{search_options.TOO_SHORT}: 3 epochs", "training the supernet"):
            progress(what, 1, 1)
        return SimpleNamespace(folder=tmp_path)

    monkeypatch.setattr(verbs, "search", told)
    monkeypatch.setattr(commands, "_finish", lambda *_, **__: 0)
    (tmp_path / "supernet.pt").touch()
    given = ["--task", "images", "--data", "my data", "--set", "size=32,supernet=old", "--set", "strategy=supernet"]
    assert main(["search", *given, "--device", "stm32f412", "-o", "found"]) == 0
    again = f"tinyweave search --task images --data 'my data' --set size=32 --set supernet={tmp_path} --device DEVICE -o FOLDER"
    assert capsys.readouterr().err.splitlines() == [
        "tinyweave: the search needs about 7 minutes of wall-clock time, if no other program runs",
        "tinyweave: the search has too little time for a supernet: 3 epochs",
        f"tinyweave: for another device: {again}",
    ]


@pytest.mark.emulator
@pytest.mark.parametrize("minutes", [0.5, None])
def test_a_search_by_supernet_reports_the_minutes_that_it_needs(
    minutes: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a time limit, a GPU trains a supernet as long as the paper does."""
    monkeypatch.setattr(one_shot, "predicted_seconds", lambda *_: dict.fromkeys(one_shot.SHARES, 6000.0))
    monkeypatch.setattr(searching, "machine_factor", lambda _: 1.0)
    monkeypatch.setattr(train, "device", lambda: torch.device("cuda"))
    run, said = planned(tmp_path, SearchOptions("supernet", minutes=minutes, processes=1))
    least = SupernetBudget(1, 1, Evolution(4, 2, 2, 2, 0.1, 1))
    budget = least if minutes else paper_budget("sensors")
    assert from_record(run["supernet"]) == budget
    needed = 100 * (budget.warm_up + budget.epochs + budget.evolution.evaluations)
    (told,) = (each for each in said if each.startswith(searching.NEEDS))
    assert 0 <= int(told.removeprefix(f"{searching.NEEDS} ").removesuffix(" minutes")) - needed <= 20


@pytest.mark.emulator
def test_with_a_trained_supernet_its_time_goes_to_the_other_steps(
    timed: SearchResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "machine_factor", lambda _: 1.0)
    run, said = planned(tmp_path, SearchOptions(supernet=str(timed.folder), minutes=2, processes=1))
    assert run["strategy"] == "supernet" and (run["supernet"]["warm_up"], run["supernet"]["epochs"]) == (1, 1)
    assert run["limit"]["seconds"] > 0.9 * 120 and not any(each.startswith(search_options.TOO_SHORT) for each in said)


def test_the_predicted_times_grow_with_networks_and_shrink_with_processes() -> None:
    limit = Budget(600, 2, 1.5, 640, 64, validation=200)
    seconds = one_shot.predicted_seconds(SPACE, 2, limit, 1)
    slower = one_shot.predicted_seconds(SPACE, 2, replace(limit, slowdown=3.0), 1)
    assert set(seconds) == set(one_shot.SHARES) and slower == {
        name: pytest.approx(2 * value) for name, value in seconds.items()
    }
    typical = step_seconds(arch_of(SPACE, smallest(SPACE), 2), 64), step_seconds(arch_of(SPACE, largest(SPACE), 2), 64)
    assert seconds["warm_up"] == pytest.approx(1.5 * 10 * typical[1])
    assert 4 * typical[0] < seconds["epochs"] / (1.5 * 10) < 4 * typical[1]
    shares = [one_shot.predicted_seconds(SPACE, 2, limit, size)["epochs"] / seconds["epochs"] for size in (2, 3, 4)]
    assert shares == pytest.approx([1 / 2, 1 / 2, 1 / 4]), "a process of three has two networks of a step"
    least = 1.5 * one_shot.PLANS * PLANNING
    more = one_shot.predicted_seconds(SPACE, 2, replace(limit, validation=1000), 1)["evolution"]
    assert least < seconds["evolution"] < more
