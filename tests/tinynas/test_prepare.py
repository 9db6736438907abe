"""The choice of the input's size: possible sizes, limits that bind, short trainings, and how a search continues with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("PIL.Image", reason="needs Pillow: pip install '.[images]'")

from PIL import Image

from tinynas import prepare, search_options, searching
from tinynas.arch import Arch, macs
from tinynas.budget import Budget
from tinynas.costs import Target, with_estimated_overhead
from tinynas.halving import Rung
from tinynas.prepare import STAGE_ONE, prepared_for, task_of, task_within
from tinynas.settings import Preparation, SearchOptions
from tinynas.space import SearchSpace, arch_of, plain, small_images, smallest
from tinynas.stage_one import Aim, Setting, best_input
from tinynas.tasks.dataset import Survey
from tinynas.workers import Workers
from tinyweave import api
from tinyweave.devices import find
from tinyweave.ir import CompileError
from tinyweave.support.media import write_recording

BOARD = find("stm32f412")
COUNTS = {"train": 60, "validation": 20, "test": 20}
TIMED = SearchOptions(minutes=3, processes=1)

pytestmark = pytest.mark.usefixtures("one_worker")


def target(**limits: Any) -> Target:
    return Target(BOARD, api.limits_of(BOARD, **limits))


def sides(task: str, own: int, **settings: Any) -> list[tuple[int, int] | None]:
    return [each.size for each in prepare._inputs(task, Preparation(**settings), Survey(2, COUNTS, (own, 2 * own)))]


def test_the_possible_sizes_of_images_end_at_the_size_of_the_samples() -> None:
    assert sides("images", 28) == [(16, 16), (24, 24), (28, 28)] and sides("images", 9) == [(9, 9)]
    assert sides("images", 32) == [(16, 16), (24, 24), (32, 32)] and sides("images", 4) == [(8, 8)], "8 is the least"
    assert sides("images", 70)[-2:] == [(64, 64), (70, 70)] and sides("images", 900)[-1] == (224, 224)
    assert sides("visual-wake-words", 100)[-1] == (100, 100)
    assert sides("images", 150, space="mobilenet_v3") == [(150, 150)], "the space has several sizes itself"
    assert sides("detection", 60) == [(48, 48), (64, 64), (80, 80), (96, 96), (112, 112), (128, 128)], "the longer side counts"
    assert sides("detection", 64, stride=32)[-1] == (128, 128) and sides("detection", 10) == [(48, 48)]


def test_the_possible_features_of_sounds_are_bands_and_hops_that_the_user_does_not_give() -> None:
    def sizes(**settings: Any) -> list[tuple[int, int]]:
        survey = Survey(2, COUNTS, rate=8000)
        inputs = prepare._inputs("keywords", Preparation(**settings), survey)
        return [prepare._space_of("keywords", each, survey).sizes[0] for each in inputs]

    every = sizes()
    assert len(every) == 16 and every == sorted(every, key=np.prod) and {(49, 40), (97, 10), (31, 32)} < set(every)
    assert sizes(bands=24) == [(31, 24), (49, 24), (61, 24), (97, 24)]
    assert sizes(coefficients=12) == [(31, 12), (49, 12), (61, 12), (97, 12)], "MFCC of 40 bands"
    assert [columns for _, columns in sizes(hop_ms=25)] == [10, 20, 32, 40]
    assert sizes(hop_ms=25, bands=8) == [(39, 8)]


def small_spaces(*sides: int) -> list[SearchSpace]:
    return [small_images((side,)) for side in sides]


def chosen(worker: Workers, is_trainable: Callable[[Arch], bool] = lambda _: True, **limits: Any) -> tuple[int, Setting]:
    spaces = small_spaces(16, 24, 32)
    within = with_estimated_overhead(target(**limits), spaces[0], 4)
    return best_input(spaces, Aim(within, 4, is_trainable=is_trainable), worker)


def test_the_input_is_as_large_as_the_limits_allow(one_worker: Workers) -> None:
    number, loose = chosen(one_worker, ram="200k", flash="900k")
    assert number == 2 and loose.width == 2.0 and loose.share >= 0.8
    for limits in ({"ram": "12k", "flash": "96k"}, {"ram": "200k", "flash": "900k", "latency_ms": 80}):
        number, tight = chosen(one_worker, **limits)
        assert number < 2 and tight.share >= 0.8 and 0 < tight.p80 < loose.p80, limits
        assert all(count <= 80 * BOARD.clock_hz / 1e3 for count in tight.macs), "a core has at most a MAC per cycle"
    number, tiny = chosen(one_worker, ram="1k", flash="8k")
    assert number == 0 and tiny.width == 0.5 and tiny.share == 0


def test_an_input_that_there_is_no_time_to_train_is_not_chosen(one_worker: Workers) -> None:
    spaces = small_spaces(16, 24, 32)
    least = macs(arch_of(spaces[2], plain(spaces[2], 0.5, 2), 4))
    number, setting = chosen(one_worker, lambda arch: macs(arch) < least, ram="200k", flash="900k")
    assert number < 2 and macs(arch_of(spaces[number], plain(spaces[number], setting.width, 2), 4)) < least
    assert chosen(one_worker, lambda arch: False)[0] == 0


def test_few_networks_of_a_setting_are_planned_if_it_is_not_feasible(one_worker: Workers) -> None:
    """Estimates cannot see code and slow kernels, so within tight limits plans decide; no more plans than allowed are made."""
    spaces = small_spaces(16, 24)
    planned = list[Arch]()

    def each(function: Any, calls: Any) -> list[Any]:
        planned.extend(arch for _, arch in calls)
        return [None] * len(calls)

    aim = Aim(target(ram="100k", flash="900k"), 4, plans=12)
    number, setting = best_input(spaces, aim, Workers(one_worker.submit, 1))
    assert setting.samples == 10 and setting.share >= 0.8
    blind = Mock(each=each)
    number, setting = best_input(spaces, aim, blind)
    assert len(planned) == 15, "five of each setting, until 12 or more are planned"
    assert setting.share == 1.0 and number == 0 and setting.samples > 10, "an estimate, because no planned network fits"


def photographs(folder: Path, side: int = 20, count: int = 30) -> Path:
    rng = np.random.default_rng(0)
    for label in ("a", "b"):
        (folder / label).mkdir(parents=True)
        for number in range(count):
            pixels = rng.integers(0, 256, (side, side), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / label / f"{number}.png")
    return folder


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Replace stage one by one that chooses the second input, and the machine's speed by that of the reference core."""
    stub = Mock(side_effect=lambda spaces, *_: (1, Setting(spaces[1].sizes[0], 0.5, (7, 8, 9), 3)))
    monkeypatch.setattr(prepare, "best_input", stub)
    monkeypatch.setattr(prepare, "machine_factor", lambda _: 1.0)
    return stub


def trials(monkeypatch: pytest.MonkeyPatch, *accuracies: float) -> None:
    tried = [{"input": [side, side], "epochs": 9, "accuracy": share} for side, share in zip((16, 20), accuracies, strict=True)]
    monkeypatch.setattr(prepare, "_tried", lambda *_: tried)


def test_a_search_continues_with_the_input_that_was_chosen(
    tmp_path: Path, quick: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, run = photographs(tmp_path / "photos"), tmp_path / "run"
    trials(monkeypatch, 0.7, 0.7)
    data, space, left = task_within("images", folder, Preparation(), target(), run, options=TIMED)
    assert data.values.shape[1:] == (20, 20, 3) and space.sizes == ((20, 20),) and left.minutes == pytest.approx(0.9 * 3)
    record = data.preparation["stage_one"]
    assert (record["input"], record["smallest"], record["inputs"], record["share"]) == ([20, 20], [16, 16], 2, 1.0)
    assert record["feasible"] == TIMED.feasible
    again, space, _ = task_within("images", folder, Preparation(), target(), run, options=TIMED)
    assert again.preparation == data.preparation and space.sizes == ((20, 20),) and quick.call_count == 1, (
        "read from the folder"
    )
    task_within("images", folder, Preparation(), target(ram="8k"), run, options=TIMED)
    assert quick.call_count == 2, "another question"
    (run / search_options.RUN).write_text("{}")
    with pytest.raises(CompileError, match="holds a search with another limits; give another folder, or the same command"):
        task_within("images", folder, Preparation(), target(), run, options=TIMED)
    assert quick.call_count == 2, "a run of the folder is not overwritten"
    (run / search_options.RUN).unlink()
    (run / STAGE_ONE).write_text("{")
    assert task_within("images", folder, Preparation(), target(), run, options=TIMED)[0].preparation == data.preparation
    assert quick.call_count == 3, "a damaged file is no answer"


def test_a_size_that_the_user_gives_is_not_changed(tmp_path: Path, quick: Mock) -> None:
    folder, run = photographs(tmp_path / "photos"), tmp_path / "run"
    data, space, left = task_within("images", folder, Preparation((12, 16)), target(), run, options=TIMED)
    assert data.values.shape[1:] == (12, 16, 3) and "stage_one" not in data.preparation and left is TIMED
    assert space.sizes == ((12, 16),) and not quick.called and not run.exists()
    small = photographs(tmp_path / "small", side=9)
    data, _, left = task_within("images", small, Preparation(), target(), run, options=TIMED)
    assert data.values.shape[1:] == (9, 9, 3) and left is TIMED and not quick.called, "there is one size"


def test_short_trainings_take_the_largest_input_that_is_not_clearly_worse(
    tmp_path: Path, quick: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = photographs(tmp_path / "photos")
    for number, accuracies, side in ((1, (0.72, 0.7), 20), (1, (0.99, 0.7), 16), (0, (0.72, 0.7), 20), (0, (0.7, 0.99), 20)):
        quick.side_effect = lambda spaces, *_: (number, Setting(spaces[number].sizes[0], 0.5, (7, 8, 9), 3))  # noqa: B023
        trials(monkeypatch, *accuracies)
        run = tmp_path / f"{number} {accuracies}"
        data, *_ = task_within("images", folder, Preparation(), target(), run, options=TIMED)
        record = data.preparation["stage_one"]
        assert data.values.shape[1] == side and record["input"] == [side, side], accuracies
        assert record["by_macs"] == [[16, 16], [20, 20]][number]
        assert [each["accuracy"] for each in record["tried"]] == list(accuracies)


def test_only_a_timed_search_by_halving_trains_at_several_sizes(
    tmp_path: Path, quick: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, tried = photographs(tmp_path / "photos"), Mock(return_value=[])
    monkeypatch.setattr(prepare, "_tried", tried)
    for number, options in enumerate((SearchOptions("supernet", minutes=3), SearchOptions(rungs=[Rung(1, 1)]))):
        found = task_within("images", folder, Preparation(), target(), tmp_path / f"{number}", options=options)
        assert found[2] is options and not tried.called
    task_within("images", folder, Preparation(), target(), tmp_path / "timed", options=SearchOptions(processes=1))
    assert tried.call_count == 1


def test_the_input_has_the_size_of_a_trained_supernet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, other = photographs(tmp_path / "photos"), tmp_path / "other"
    monkeypatch.setattr(prepare, "_choose", lambda _: pytest.fail("the size is known"))
    other.mkdir()
    (other / "supernet.pt").touch()
    about = {"version": 13, "space": "x", "widths": [1.0], "supernet": {"warm_up": 1, "epochs": 2}}
    options = SearchOptions(supernet=str(other))
    (other / "search.json").write_text(json.dumps({**about, "sizes": [[16, 16]]}))
    data, space, same = task_within("images", folder, Preparation(), target(), tmp_path / "run", options=options)
    assert data.values.shape[1:3] == space.sizes[0] == (16, 16) and same is options and "stage_one" not in data.preparation
    (other / "search.json").write_text(json.dumps({**about, "sizes": [[17, 16]]}))
    with pytest.raises(CompileError, match=r"is for inputs of size \[17, 16\], which these samples and settings exclude; give"):
        task_within("images", folder, Preparation(), target(), tmp_path / "run", options=options)


def test_networks_of_half_and_twice_the_input_are_trained_for_equal_times(
    tmp_path: Path, one_worker: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second call gives the same accuracies; the samples are read once."""
    folder, options = photographs(tmp_path / "photos", side=32), SearchOptions(minutes=4, processes=1)
    inputs = tuple(Preparation((side, side)) for side in (16, 24, 32))
    spaces = tuple(small_spaces(16, 24, 32))
    survey = Survey(2, {"train": 36, "validation": 12, "test": 12}, (32, 32))
    choice = prepare._Choice("images", folder, inputs, spaces, survey, target(), tmp_path / "run", options, lambda *_: None)
    budget = Budget(240, 1, 0.05, 36, 16)
    monkeypatch.setattr(prepare, "INPUT_SHARE", 0.0018)
    monkeypatch.setattr(prepare, "TRIAL_STEPS", 2)
    within = with_estimated_overhead(target(ram="6k", flash="60k"), spaces[0], 2)
    tried = prepare._tried(choice, 1, within, budget, one_worker)
    assert [each["input"] for each in tried] == [[16, 16], [24, 24], [32, 32]]
    assert all(each["epochs"] >= 1 and 0 <= each["accuracy"] <= 1 for each in tried)
    saved = prepare._read_again(choice, 1)
    assert saved is not None and (saved.values == task_of("images", folder, inputs[1])[0].values).all()
    assert prepare._tried(choice, 1, within, budget, one_worker) == tried
    monkeypatch.setattr(prepare, "TRIAL_STEPS", 10_000)
    assert prepare._tried(choice, 1, within, budget, one_worker) == [], "too little time"


def test_half_and_twice_the_values_are_the_nearest_sizes() -> None:
    spaces = small_spaces(16, 24, 32, 40, 48, 56, 64)
    assert [prepare._neighbours(spaces, at) for at in (2, 0, 6)] == [[1, 4], [1], [4]]
    assert prepare._neighbours(small_spaces(28), 0) == []


def test_a_network_for_sounds_is_trained_with_the_hop_of_its_search(tmp_path: Path) -> None:
    """`train` reads only the number of frames from arch.json, and finds the hop that gives so many."""
    rng = np.random.default_rng(0)
    for label in ("no", "yes"):
        (tmp_path / label).mkdir()
        for take in range(12):
            samples = rng.integers(-9000, 9000, 4000).astype(np.int16)
            write_recording(tmp_path / label / f"{take}.wav", 8000, samples)
    for hop in (10.0, 16.0, 20.0, 32.0):
        data, space = task_of("keywords", tmp_path, Preparation(seconds=0.5, bands=20, hop_ms=hop))
        assert data.preparation["features"]["hop"] == 8 * hop
        network = arch_of(space, smallest(space), 2)
        again, _ = task_of("keywords", tmp_path, prepared_for(network, Preparation(seconds=0.5)))
        assert again.values.shape == data.values.shape and (again.values == data.values).all()
    assert prepared_for(network, Preparation(coefficients=20)).coefficients == 20
    with pytest.raises(CompileError, match="coefficients=13, but the network is for 20 features per frame; give "):
        prepared_for(network, Preparation(coefficients=13))
    other = replace(network, image=(7, 20, 1))
    assert task_of("keywords", tmp_path, prepared_for(other, Preparation(seconds=0.5)))[0].preparation["features"]["hop"] == 160
    with pytest.raises(CompileError, match=r"a hop of 0\.5 ms is not supported; give 1 to 1,000, for example 20"):
        task_of("keywords", tmp_path, Preparation(seconds=0.5, hop_ms=0.5))


def test_faults_of_samples_and_options_are_found_before_the_choice(tmp_path: Path, quick: Mock) -> None:
    folder = photographs(tmp_path / "photos")
    for prepared, options, message in (
        (Preparation(space="vgg"), TIMED, "space=vgg is unknown"),
        (Preparation(), replace(TIMED, minutes=0), "--minutes 0 is out of range"),
    ):
        with pytest.raises(CompileError, match=message):
            task_within("images", folder, prepared, target(), tmp_path / "run", options=options)
    (folder / "b").rename(tmp_path / "b")
    with pytest.raises(CompileError, match="there is only one class, 'a'"):
        task_within("images", folder, Preparation(), target(), tmp_path / "run", options=TIMED)
    with pytest.raises(CompileError, match="is not a folder"):
        task_within("images", tmp_path / "none", Preparation(), target(), tmp_path / "run", options=TIMED)
    assert not quick.called and not (tmp_path / "run").exists()


@pytest.mark.emulator
def test_a_search_without_a_size_says_what_it_chose_and_continues_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is time for nothing, so the smallest image is taken. The same command gives the same result without training."""
    from tinyweave.cli import main

    for module in (prepare, searching):
        monkeypatch.setattr(module, "machine_factor", lambda _: 1000.0)
    folder, out = photographs(tmp_path / "photos"), tmp_path / "found"
    given = ["--data", str(folder), "--device", "stm32f412", "--ram", "12k", "--minutes", "0.1", "--processes", "1"]
    command = ["search", "--task", "images", *given, "--json", "-o", str(out)]
    assert main(command) == 0
    record = json.loads(capsys.readouterr().out)
    choice = record["task"]["preparation"]["stage_one"]
    assert json.loads(record["arch"])["image"] == [16, 16, 3] and choice["input"] == [16, 16] and choice["tried"] == []
    said = "stage one chose an input of 16 x 16 (2 sizes of 16 x 16 to 20 x 20): there "
    assert said in (out / "card.md").read_text() and json.loads((out / "result.json").read_text()) == record
    monkeypatch.setattr(prepare, "best_input", Mock(side_effect=AssertionError))
    monkeypatch.setattr(searching.halving, "train_one", Mock(side_effect=AssertionError))
    assert main(command) == 0 and json.loads(capsys.readouterr().out) == record
    assert main([*command, "--set", "size=16"]) == 2
    assert "holds a search with another data; give another folder" in capsys.readouterr().err
    assert sorted(out.glob("stage_one*")) == [out / STAGE_ONE]
