"""How a search divides its time limit: the predicted times of all parts sum to at most the limit."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from cases.waves import waves

from tinynas import budget as budgets
from tinynas import halving, searching
from tinynas import space as spaces
from tinynas.arch import Arch
from tinynas.budget import (
    FEWEST_SAMPLED,
    FILE,
    FINALISTS,
    FIXED,
    FOLDED_SHARES,
    MAX_FINAL_STEPS,
    MAX_RUNG_STEPS,
    MIN_FOLDED_STEPS,
    MIN_STEPS,
    MIN_TRIAL_STEPS,
    MOST_CANDIDATES,
    MOST_SAMPLED,
    PLANNING,
    SHARES,
    Budget,
    machine_factor,
    step_seconds,
)
from tinynas.costs import Costs, Target
from tinynas.halving import FOLDS, Rung
from tinynas.space import arch_of, largest, sample, sensors, small_images, smallest
from tinynas.workers import Workers
from tinyweave.planning import Limits

SPACE = small_images()


def archs(count: int, seed: int = 0) -> list[Arch]:
    rng = random.Random(seed)
    return [arch_of(SPACE, sample(SPACE, rng), 10) for _ in range(count)]


def rungs(budget: Budget, arch: Arch) -> tuple[Rung, ...]:
    """Return the rungs for candidates that are all as large as `arch`."""
    return budget.rungs([arch] * MOST_CANDIDATES)


def needed(budget: Budget, arch: Arch) -> float:
    """Return the predicted seconds of a search whose networks are all as large as `arch`, with one trial of 3 augmentations."""
    final = [budget.final_epochs(arch)] * MOST_CANDIDATES
    return budget.needed([arch] * MOST_CANDIDATES, 3, budget.trial(arch, 3), rungs(budget, arch), final)


@pytest.mark.parametrize("minutes", [5, 20, 60])
@pytest.mark.parametrize(("workers", "folds"), [(1, 1), (2, 1), (2, FOLDS)])
def test_the_parts_of_a_search_take_no_longer_than_the_time_limit(minutes: float, workers: int, folds: int) -> None:
    machines = (300, 1.0), (3_000, 0.7), (20_000, 2.5)
    for samples, speed in machines if folds == 1 else machines[:2]:  # only few samples are divided into folds
        budget = Budget(60 * minutes, workers, speed, samples, 64, folds, samples // 4)
        for arch in filter(budget.is_trainable, archs(30)):
            rounded = 1.13 if samples == 20_000 else 1.0  # there, a single epoch may be longer than its share
            assert needed(budget, arch) <= rounded * budget.seconds, (samples, speed, rungs(budget, arch))


def test_most_of_the_time_is_training() -> None:
    budget = Budget(300, 2, 1.0, 3_000, 64)
    arch = max(filter(budget.is_trainable, archs(30)), key=budget.step)
    assert 0.7 * budget.seconds < needed(budget, arch) - FIXED - budget.sampled * PLANNING / 2 < budget.seconds
    assert SHARES.keys() == FOLDED_SHARES.keys() and sum([*SHARES.values(), *FOLDED_SHARES.values()]) == pytest.approx(2)


def test_the_needed_time_is_that_of_all_trainings_and_of_the_rest() -> None:
    budget, arch = Budget(300, 2, 1.5, 640, 64, folds=4, validation=128), archs(1)[0]
    rest = 1.5 * (FIXED + budget.sampled * PLANNING / 2)
    folded = (3 * 2 * 5 + 4 * (3 * 7 + 1 * 11)) * 10 * budget.step(arch)  # rounds of two workers, epochs, steps
    final = 13 * 12 * budget.step(arch)
    assert budget.needed([arch] * 6, 3, (5, 3), [Rung(5, 7), Rung(2, 11)], [13] * 6) == pytest.approx(rest + folded + final)
    longer = budget.needed([arch] * 6, 3, (5, 3), [Rung(5, 7), Rung(2, 11)], [13, 26, 13, 13, 13, 99])  # the last is left out
    assert longer - rest - folded - final == pytest.approx(4 * (3 * 7 + 1 * 11) * 10 * budget.step(arch))


def test_large_and_small_candidates_train_for_equal_times() -> None:
    budget, (large, small) = Budget(600, 2, 1.0, 2_000, 64), (arch_of(SPACE, each(SPACE), 10) for each in (largest, smallest))
    by_large, by_small = (budget.rungs([first, *[other] * 5]) for first, other in ((large, small), (small, large)))
    assert by_large[0].epochs < by_small[0].epochs
    share = budget.share("halving") / len(by_large) / (by_large[0].candidates / 2)
    assert 0.6 * share < by_large[0].epochs * budget.steps_per_epoch * budget.step(large) <= share


def test_little_time_trains_fewer_candidates_rather_than_shorter() -> None:
    counts = list[int]()
    for minutes in (2, 5, 20, 60, 600):
        budget = Budget(60 * minutes, 2, 1.0, 3_000, 64)
        found = rungs(budget, archs(1)[0])
        counts.append(found[0].candidates)
        assert counts[-1] == FINALISTS or found[0].epochs * budget.steps_per_epoch >= MIN_STEPS - budget.steps_per_epoch
        assert [rung.candidates for rung in found] == sorted({rung.candidates for rung in found}, reverse=True)
        assert found[-1].candidates == FINALISTS
    assert counts == sorted(counts) and counts[0] < counts[-1] == MOST_CANDIDATES


def test_networks_that_are_too_large_for_the_time_are_not_trainable() -> None:
    budget = Budget(220, 2, 1.0, 20_000, 128)
    whole, least = (arch_of(SPACE, choice(SPACE), 10) for choice in (largest, smallest))
    assert budget.is_trainable(least) and not budget.is_trainable(whole)
    assert Budget(12_000, 2, 1.0, 20_000, 128).is_trainable(whole)


def test_the_shortest_search_trains_everything_for_one_epoch() -> None:
    budget, arch = Budget(6, 1, 1000.0, 3_000, 64), archs(1)[0]
    assert [(rung.candidates, rung.epochs) for rung in rungs(budget, arch)] == [(FINALISTS, 1)]
    assert budget.trial(arch, 3) == (1, 1) and budget.final_epochs(arch) == 1


def test_recipes_are_cross_validated_only_if_trials_are_long() -> None:
    """vibration: after 134 steps in 2 folds weak augmentation leads by 2 points, after 440 strong augmentation by 15."""
    arch = archs(1)[0]
    trials = [(budget := Budget(60 * minutes, 2, 1.0, 600, 32, 2)).trial(arch, 4) for minutes in (1, 4, 16, 64, 256)]
    counts = [epochs * budget.steps_per_epoch for epochs, _ in trials]
    assert {folds for _, folds in trials} == {1, 2} and [folds for _, folds in trials] == sorted(folds for _, folds in trials)
    for (_, folds), steps in zip(trials, counts, strict=True):
        assert folds == 1 or steps + budget.steps_per_epoch > MIN_TRIAL_STEPS
        assert folds == 2 or steps < 2 * MIN_TRIAL_STEPS


@pytest.mark.parametrize(("groups", "minutes", "compared"), [(None, 1, True), (100, 1, False), (4, 1, True), (100, 60, True)])
def test_recipes_are_not_compared_on_one_speaker(groups: int | None, minutes: float, compared: bool) -> None:
    data, space = waves(200), sensors(24, 3)
    arch = arch_of(space, smallest(space), 3)
    data = data if groups is None else replace(data, groups=np.arange(len(data.labels)) // groups)
    judges = data.groups_of("validation")
    assert judges is None or (len(np.unique(judges)) < halving.FEW_GROUPS) == (groups == 100)
    about = SimpleNamespace(data=data, target=Target(None, Limits()))
    budget = Budget(60 * minutes, 2, 1.0, 120, 16, 4, 40)
    run = searching._timed_record(about, budget, [(arch, Costs(0, 0, 0, None, {}))] * 2, [arch])
    assert (run["trial"] != (0, 1)) == compared == (run["recipes"] == halving.recipes_of(data))
    assert compared or run["recipes"] == ("sensors_shifted",)


def test_small_sets_of_samples_are_not_trained_for_ever() -> None:
    """Yet long enough: OSULeaf (200 samples) had 84 % after 4,800 steps, and 89 % after 20,000."""
    arch = archs(1)[0]
    assert all(Budget(36_000, 2, 1, count, 16).final_epochs(arch) == MAX_FINAL_STEPS // (count // 16) for count in (200, 40))


def first(space: spaces.SearchSpace, *size: float) -> Arch:
    return spaces.plain_network(space, spaces.PlainSize(*size), 10, spaces.families_of(space)[0])


def test_steps_are_predicted_as_measured_whatever_the_samples() -> None:
    """Before, these ratios differed 1.8 times, and trainings took 1.26 times as long as predicted."""
    grey, series = small_images((28,), 1), sensors(256, 3)
    small = first(grey, 0.5), first(SPACE, 0.5), first(series, 0.5), first(spaces.keywords(), 0.5)
    archs, batches = (*small, first(grey, 1.5, 2), first(series, 1.5, 2)), (16, 64, 16, 64, 64, 64)
    ratios = [ms / step_seconds(*each) for *each, ms in zip(archs, batches, (7.66, 18, 5.63, 19, 68.2, 23.8), strict=True)]
    assert max(ratios) < 1.4 * min(ratios)


def test_the_speed_of_a_machine_is_measured_once(one_worker: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine later divides the time limit as an idle one: equal searches train equal networks."""
    monkeypatch.setattr(budgets, "cache_folder", lambda: tmp_path)
    factor = machine_factor(one_worker)
    assert 0.01 < factor < 100 and json.loads((tmp_path / FILE).read_text()) == {"factor": factor}
    (tmp_path / FILE).write_text('{"factor": 1.25}')
    assert machine_factor(one_worker) == 1.25
    monkeypatch.setattr(budgets, "_measured_factor", lambda: 1.73)
    for damaged in ("", "{", "[]", '{"factor": null}', '{"factor": -1}', '{"factor": NaN}', '{"factor": 1e4}'):
        (tmp_path / FILE).write_text(damaged)
        assert machine_factor(one_worker) == 1.728


def test_the_slowdown_of_a_machine_is_the_rounded_mean_of_its_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements of one machine, with few and with 20 busy processes beside, give the same plans."""
    for number, measured in enumerate(([0.561, 0.562], [0.606, 0.61], [0.5, 0.56], [0.56, 0.7], [0.7, 0.72])):
        monkeypatch.setattr(budgets, "cache_folder", partial(tmp_path.joinpath, f"{number}"))
        monkeypatch.setattr(Workers, "each", lambda *_, measured=measured: measured)
        assert machine_factor(Workers(lambda *_: pytest.fail("no call is scheduled"), 2)) == (0.694 if number == 4 else 0.579)


def test_of_repeated_measurements_the_fastest_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    train = pytest.importorskip("tinynas.learning.train", reason="needs torch")
    monkeypatch.setattr(train, "fit", lambda *_: None)

    def factor(*seconds: float) -> float:
        """Return the measured factor if the trainings take `seconds`, with pauses of 100 s between them."""
        ends = list(accumulate(100 + each for each in seconds))
        clock = iter([time for end, each in zip(ends, seconds, strict=True) for time in (end - each, end)])
        monkeypatch.setattr(budgets, "time", SimpleNamespace(process_time=lambda: next(clock)))
        return budgets._measured_factor()

    predicted = sum(budgets.STEPS * step_seconds(first(space, 1), budgets.SAMPLES) for space in (SPACE, sensors(256, 3)))
    assert factor(4, 2, 5, 3, 6, 8, 1, 9) == pytest.approx(3 / predicted)


def test_a_search_plans_some_networks_in_a_short_time_and_not_too_many_in_a_long_time() -> None:
    times = 6, 120, 600, 10**9
    counts = [Budget(seconds, 2, 1.0, 3_000, 64).sampled for seconds in times]
    assert counts == sorted(counts) and counts[0] == FEWEST_SAMPLED < counts[1] < counts[2] < counts[3] == MOST_SAMPLED


def test_few_samples_are_trained_long_enough_to_tell_networks_apart() -> None:
    arch = arch_of(SPACE, smallest(SPACE), 10)
    counts = list[int]()
    for minutes in (2, 5, 20, 60):
        budget = Budget(60 * minutes, 2, 1.0, 200, 16, FOLDS)
        found = rungs(budget, arch)
        counts.append(found[0].candidates)
        first, last = (rung.epochs * budget.steps_per_epoch for rung in (found[0], found[-1]))
        assert len(found) == 1 or first >= MIN_FOLDED_STEPS - budget.steps_per_epoch
        assert found[-1].candidates == (FINALISTS if len(found) == 1 and counts[-1] == FINALISTS else min(4, counts[-1]))
        assert last <= MAX_RUNG_STEPS and (minutes < 60 or last > MAX_RUNG_STEPS / 3)
    assert counts == sorted(counts) and counts[0] < counts[-1]
