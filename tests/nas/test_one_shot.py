"""A search by a supernet: it ends as one that was interrupted ends, its limits hold, and its numbers follow from the time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from cases.waves import BOARD, NUMBERS, SPACE, TARGET, waves  # noqa: E402

from tinyweave import api  # noqa: E402
from tinyweave.ir import CompileError  # noqa: E402
from tinyweave.nas import halving, logs, one_shot, searching  # noqa: E402
from tinyweave.nas.arch import to_json  # noqa: E402
from tinyweave.nas.costs import Target, costs  # noqa: E402
from tinyweave.nas.evolution import Evolution  # noqa: E402
from tinyweave.nas.halving import Rung  # noqa: E402
from tinyweave.nas.one_shot import OneShot, from_record, narrowed, numbers_for, paper_sized  # noqa: E402
from tinyweave.nas.searching import SearchResult, search  # noqa: E402
from tinyweave.nas.space import SearchSpace, arch_of, small_images, smallest  # noqa: E402
from tinyweave.nas.workers import Workers  # noqa: E402
from tinyweave.report.schema import faults  # noqa: E402
from tinyweave.report.search import card, search_record  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_worker", "few_of_each_width")


@pytest.fixture(scope="module")
def few_of_each_width() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(one_shot, "PER_WIDTH", 2)
        yield


@pytest.fixture(scope="module")
def found(one_worker: Workers, few_of_each_width: None, tmp_path_factory: pytest.TempPathFactory) -> SearchResult:
    return search(waves(400), SPACE, TARGET, tmp_path_factory.mktemp("found"), numbers=NUMBERS, tensorboard=True)


@pytest.mark.emulator
def test_the_network_that_is_found_is_deployed_as_the_search_said(found: SearchResult) -> None:
    profile, run = found.deployment.profile, json.loads((found.folder / "search.json").read_text())
    assert found.deployment.verification.ok and found.fits and found.accuracy["test_int8"] > 0.6
    assert found.costs.ram == profile.ram and found.costs.flash == pytest.approx(profile.flash, rel=0.01)
    assert run["strategy"] == "supernet" and len(run["widths"]) == 1 and from_record(run["numbers"]) == NUMBERS
    assert len(found.candidates) == NUMBERS.evolution.evaluations and all(cost.fit for _, cost in found.candidates)
    rungs = [[each["candidate"] for each in found.trained if each["rung"] == number] for number in range(3)]
    assert rungs[0] == list(range(8)) and rungs[1] == [0, 1] and len(rungs[2]) == 1
    inherited = [each["accuracy"] for each in found.trained if each["rung"] == 0]
    assert inherited == sorted(inherited, reverse=True), "the finalists are the best"


def test_the_record_tells_of_the_supernet_and_the_front(found: SearchResult) -> None:
    run = json.loads((found.folder / "search.json").read_text())
    record = search_record(found, run)
    assert faults(record, "search") == "" and record["strategy"] == "supernet"
    assert record["trained"]["supernet"] == {"warm_up": 1, "epochs": 2} and record["trained"]["epochs"] == 3 + 4
    assert found.candidates[record["chosen"]][0] == found.arch
    points = [(each["accuracy"], -each["ram"]) for each in record["candidates"]]
    front = [points[each["candidate"]] for each in record["front"]]
    assert set(front) == {p for p in points if not any(q != p and q[0] >= p[0] and q[1] >= p[1] for q in points)}
    assert all(to_json(found.candidates[each["candidate"]][0]) == each["arch"] for each in record["front"])
    assert "measured with the weights of a supernet: 8 of the" in card(record) and "2 of them trained further" in card(record)


class StopError(Exception):
    pass


@pytest.mark.sweep  # that of halving is interrupted with every change, and so are a supernet's training and evolution
@pytest.mark.emulator
def test_a_search_that_was_interrupted_ends_as_one_that_was_not(found: SearchResult, tmp_path: Path) -> None:
    def stop_at(title: str, count: int) -> Callable[[str, int, int], None]:
        def progress(what: str, done: int, total: int) -> None:
            if what.startswith(title) and done >= count:
                raise StopError

        return progress

    places = ("training the largest", 1), ("training the supernet", 1), ("first gen", 2), ("generation 1", 6), ("rung 1", 1)
    for title, count in places:
        with pytest.raises(StopError):
            search(waves(400), SPACE, TARGET, tmp_path, numbers=NUMBERS, progress=stop_at(title, count))
    resumed = search(waves(400), SPACE, TARGET, tmp_path, numbers=NUMBERS)
    assert resumed.trained == found.trained and resumed.arch == found.arch and resumed.accuracy == found.accuracy
    assert resumed.candidates == found.candidates
    files = [each.folder / "network.tflite" for each in (resumed, found)]
    assert files[0].read_bytes() == files[1].read_bytes()
    with pytest.raises(CompileError, match="holds a search with another"):
        search(waves(400), SPACE, TARGET, tmp_path, strategy="halving", minutes=1)
    assert searching._strategy("auto", 1, (), tmp_path) == "supernet", "the folder's"


def test_the_same_start_gives_the_same_supernet(found: SearchResult, tmp_path: Path) -> None:
    """Fine-tuning begins with the supernet's weights, not with random ones."""
    from tinyweave.nas.learning.supernet import Supernet

    width = json.loads((found.folder / "search.json").read_text())["widths"]
    supernet = Supernet(SearchSpace(**{**vars(SPACE), "widths": tuple(width)}), 2)
    supernet.load_state_dict(torch.load(found.folder / "supernet.pt", weights_only=True))
    start = torch.load(found.folder / "weights" / "start-0.pt", weights_only=True)
    ours = supernet.extract(found.candidates[0][0]).state_dict()
    assert set(ours) == set(start)
    assert all(torch.equal(ours[name], start[name]) for name in ours if "running" not in name and "num_batches" not in name)
    assert any(not torch.equal(ours[name], start[name]) for name in ours if "running_var" in name), "calibrated"
    assert not list(found.folder.glob("*.epoch"))


def test_the_training_is_logged(found: SearchResult) -> None:
    """Each epoch's loss and rate, of the largest network and of all, and the best accuracy of the networks measured so far."""
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", reason="needs tensorboard")
    log = reading.EventAccumulator(str(found.folder / "tensorboard"))
    log.Reload()
    told = {name: [(each.step, each.value) for each in log.Scalars(name)] for name in log.Tags()["scalars"]}
    assert [step for step, _ in told["largest/loss"]] == [1] and [step for step, _ in told["supernet/loss"]] == [1, 2]
    assert all(0 < value < 3 for _, value in told["supernet/loss"]) and told["supernet/rate"][-1][1] < 1e-3
    bests = [value for _, value in told["evolution/best accuracy"]]
    assert bests == sorted(bests) and len(bests) == len(found.candidates)
    assert bests[-1] == pytest.approx(max(each["accuracy"] for each in found.trained if each["rung"] == 0))


def test_without_tensorboard_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(logs, "find_spec", lambda name: None)
    with pytest.raises(CompileError, match=r"TensorBoard, which is not installed; pip install 'tinyweave\[tensorboard\]'"):
        search(waves(400), SPACE, TARGET, tmp_path / "none", numbers=NUMBERS, tensorboard=True)
    assert not (tmp_path / "none").exists()


def test_what_pays_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def chosen(strategy: str = "auto", minutes: float | None = None, against: tuple[str, ...] = ()) -> str:
        return searching._strategy(strategy, minutes, against, tmp_path)

    monkeypatch.setattr(searching, "has_gpu", lambda: False)
    assert [chosen(minutes=minutes) for minutes in (None, 20, 179, 180)] == ["halving"] * 3 + ["supernet"]
    assert chosen("supernet", 5) == "supernet" == chosen(against=("ram",)) and chosen("halving", 500) == "halving"
    monkeypatch.setattr(searching, "has_gpu", lambda: True)
    assert chosen() == "supernet" and chosen("halving") == "halving"
    for wrong, message in ((("luck",), "--strategy luck is unknown"), (("auto", 1, ("watts",)), "--against watts is unknown")):
        with pytest.raises(CompileError, match=message):
            chosen(*wrong)
    with pytest.raises(CompileError, match="halving has one objective"):
        chosen("halving", 5, ("ram",))


def test_numbers_follow_from_the_time_and_are_never_more_than_the_papers() -> None:
    costs = {"warm_up": 10.0, "epochs": 20.0, "evolution": 1.0, "rungs": 5.0}
    paper = paper_sized("images")
    assert numbers_for(1e9, costs, "images", 2).evolution == paper.evolution == Evolution()
    assert (paper.warm_up, paper.epochs, paper.rungs[-1]) == (150, 300, Rung(1, 100))
    assert numbers_for(0.1, costs, "sounds", 1) == OneShot(1, 1, Evolution(4, 2, 2, 2, 0.1, 1), (Rung(4, 1), Rung(2, 2)))
    for minutes in (30, 120, 600):
        numbers = numbers_for(60 * minutes, costs, "images", 2)
        assert from_record(json.loads(json.dumps(numbers.record()))) == numbers
        training = numbers.warm_up * 10 + numbers.epochs * 20
        alone = (numbers.evolution.evaluations * 1 + halving.total_epochs(numbers.rungs) * 5) / 2
        assert 0.75 * 60 * minutes < training + alone < 1.1 * 60 * minutes or numbers.rungs[0].epochs == 50


def test_seconds_are_measured(one_worker: Workers, tmp_path: Path) -> None:
    data = waves(200)
    halving.save_data(data, tmp_path / halving.DATA)
    arch = arch_of(SPACE, smallest(SPACE), 2)
    seconds = one_shot.seconds_of(data, SPACE, arch, tmp_path, one_worker, count=1, progress=lambda *_: None)
    assert set(seconds) == set(one_shot.SHARES) and all(0 < value < 60 for value in seconds.values())


def test_the_width_that_leaves_most_room_is_searched(one_worker: Workers) -> None:
    space, classes = small_images(), 10
    loose = Target(BOARD, api.limits_of(BOARD, flash="1m"))
    space = SearchSpace(**{**vars(space), "widths": (0.5, 1.0)})
    assert narrowed(space, loose, classes, one_worker).widths == (1.0,)
    least = costs(arch_of(space, smallest(space), classes), loose)
    tight = Target(BOARD, api.limits_of(BOARD, flash=least.flash + 4000))
    assert narrowed(space, tight, classes, one_worker).widths == (0.5,)
    with pytest.raises(CompileError, match="the smallest one exceeds flash"):
        narrowed(space, Target(BOARD, api.limits_of(BOARD, flash=least.flash - 1)), classes, one_worker)
