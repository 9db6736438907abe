"""Baselines: what they predict, that the test part decides nothing, what the verdict says."""

from __future__ import annotations

import re
import sys
from dataclasses import replace

import numpy as np
import pytest

from tinynas.tasks.dataset import Dataset
from tinynas.tasks.evaluation import baselines as tested
from tinynas.tasks.evaluation.baselines import LOGISTIC, MAJORITY, NEAREST, Baseline, baselines, compare, verdict
from tinynas.tasks.evaluation.intervals import paired_interval
from tinyweave.ir import CompileError

SCIKIT_LEARN = "needs scikit-learn: pip install '.[search]'"


@pytest.fixture
def blobs() -> Dataset:
    """Return 600 samples of 8 x 6 pixels: noise around the mean of their class; half of them are of class 0."""
    rng = np.random.default_rng(0)
    means, labels = rng.normal(0, 25, (3, 8, 6, 1)), np.array([0, 0, 1, 2] * 150)
    values = np.clip(means[labels] + rng.normal(0, 40, (600, 8, 6, 1)), -128, 127).astype(np.int8)
    parts = np.array(([0] * 7 + [1] + [2] * 2) * 60, np.uint8)
    return Dataset("images", ("a", "b", "c"), values, labels, parts, {})


def test_baselines_of_classes_that_a_line_tells_apart(blobs: Dataset) -> None:
    pytest.importorskip("sklearn", reason=SCIKIT_LEARN)
    majority, logistic, nearest = baselines(blobs)
    assert [each.name for each in (majority, logistic, nearest)] == [MAJORITY, LOGISTIC, NEAREST]
    labels = blobs.part("test")[1]
    for each in (majority, logistic, nearest):
        np.testing.assert_array_equal(each.correct, each.predicted == labels)
        assert each.accuracy == each.correct.mean() and each.seconds < 10
    assert (majority.predicted == 0).all() and majority.accuracy == pytest.approx(0.5, abs=0.02)
    assert logistic.accuracy > 0.95 and nearest.accuracy > 0.9
    assert logistic.setting.startswith("C = ") and nearest.setting.startswith("k = ")
    again = baselines(blobs)
    assert all(
        (a.predicted == b.predicted).all() and a.setting == b.setting for a, b in zip(again, baselines(blobs), strict=True)
    )


def test_the_test_part_decides_nothing(blobs: Dataset) -> None:
    """Other labels of the test samples change neither the settings nor what is predicted."""
    pytest.importorskip("sklearn", reason=SCIKIT_LEARN)
    wrong = replace(blobs, labels=np.where(blobs.parts == 2, (blobs.labels + 1) % 3, blobs.labels))
    for own, other in zip(baselines(blobs), baselines(wrong), strict=True):
        assert own.setting == other.setting and own.validation == other.validation
        np.testing.assert_array_equal(own.predicted, other.predicted)


def test_validation_is_learned_from_once_the_setting_is_chosen(blobs: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """The nearest neighbour of a test sample that repeats a validation sample is this validation sample."""
    pytest.importorskip("sklearn", reason=SCIKIT_LEARN)
    values, labels = blobs.values.copy(), blobs.labels.copy()
    known, unseen = np.flatnonzero(blobs.parts == 1)[0], np.flatnonzero(blobs.parts == 2)[0]
    values[known] = values[unseen] = 127
    monkeypatch.setattr(tested, "NEIGHBOURS", (1,))
    for label in range(3):
        labels[known] = label
        (nearest,) = (each for each in baselines(replace(blobs, values=values, labels=labels)) if each.name == NEAREST)
        assert nearest.predicted[0] == label


def test_the_setting_is_the_best_on_validation(blobs: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """The vote of all samples is that of the majority, in whatever order the settings are tried."""
    pytest.importorskip("sklearn", reason=SCIKIT_LEARN)
    for settings in ((3, 420), (420, 3)):
        monkeypatch.setattr(tested, "NEIGHBOURS", settings)
        nearest = baselines(blobs)[2]
        assert nearest.setting == "k = 3" and nearest.validation > 0.9


def test_large_sets_cost_bounded_time(blobs: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Larger samples are pooled, and training samples are drawn; every test sample is predicted."""
    pytest.importorskip("sklearn", reason=SCIKIT_LEARN)
    monkeypatch.setattr(tested, "MAX_FEATURES", 12)
    monkeypatch.setattr(tested, "MAX_SAMPLES", 50)
    assert tested._features(blobs.values).shape == (600, 12) and len(tested._drawn(600)) == len(set(tested._drawn(600))) == 50
    assert all(len(each.predicted) == 120 for each in baselines(blobs))


def test_what_has_no_baselines_says_so(blobs: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CompileError, match="baselines classify samples, and a detector does not"):
        baselines(replace(blobs, kind="detection"))
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    with pytest.raises(CompileError, match=r"baselines need scikit-learn, which is not installed; .*\[search\]"):
        baselines(blobs)


def of(name: str, right: int, count: int = 200) -> Baseline:
    correct = np.arange(count) < right
    return Baseline(name, "", 0.5, correct.astype(np.int64), correct, 0.0)


@pytest.mark.parametrize(
    ("right", "outcome", "says"),
    [
        (
            196,
            "better",
            r"^Better than the best baseline, k-NN \(90.0 %\): \+8.0 points \(95 % interval \+\d.\d to \+1\d.\d\).$",
        ),
        (
            182,
            "not distinguishable",
            r"^Not distinguishable from the best baseline, k-NN .*: \+1.0 points .* -0.\d to .*Add test",
        ),
        (140, "worse", r"^Worse than the best baseline, .*: -20.0 points .* to -\d+.\d\). Give the search more minutes"),
    ],
)
def test_verdicts(right: int, outcome: str, says: str) -> None:
    others, correct = [of(MAJORITY, 20), of(NEAREST, 180), of(LOGISTIC, 150)], np.arange(200) < right
    found = compare(correct, others)
    assert found.outcome == outcome and found.baseline.name == NEAREST and found.groups is None
    assert found.difference == pytest.approx(right / 200 - 0.9) and found.interval[0] < found.difference < found.interval[1]
    said = verdict(correct, others)
    assert re.search(says, said), said


def test_a_verdict_says_if_the_network_is_the_baseline_itself_or_no_better_than_the_largest_class() -> None:
    """Also: more test samples do not tell a network from itself, and the majority class is not named twice."""
    correct, others = np.arange(200) < 132, [of(MAJORITY, 128), of(NEAREST, 110), of(LOGISTIC, 130)]
    said = verdict(correct, others, own=LOGISTIC)
    assert said.startswith("The network is the best baseline, logistic regression (65.0 %): +1.0 points (95 % interval -")
    assert "No trained network was clearly better. To look for one, give the search more" in said and "test samples" not in said
    low, high = paired_interval(correct, np.arange(200) < 128)
    useless = f"always the largest class (64.0 %): +2.0 points (95 % interval {100 * low:+.1f} to {100 * high:+.1f})"
    assert f"It is not clearly better than to answer {useless}" in said and low < 0
    assert verdict(correct, others, own=NEAREST) == verdict(correct, others) != said
    assert "tell them apart" in verdict(correct, others) and "largest class" in verdict(correct, others)
    for network, other in ((correct, [of(MAJORITY, 130)]), (np.arange(200) < 190, others)):
        assert "largest class" not in verdict(network, other)


def test_a_verdict_on_few_groups_is_in_doubt() -> None:
    """All that is gained is gained in one of four groups: that may be chance, and so few groups cannot say."""
    correct, groups = np.ones(200, bool), np.arange(200) // 50
    said = verdict(correct, [of(NEAREST, 180)], groups)
    assert verdict(correct, [of(NEAREST, 180)]).startswith("Better") and said.startswith("Not distinguishable")
    assert said.endswith("come from 4 groups, so the interval cannot be trusted: test on at least 5 groups.")
    assert compare(correct, [of(NEAREST, 180)], groups).groups == 4


def test_logistic_regression_of_one_class_always_predicts_it() -> None:
    """A fold of a cross-validation by groups may have no other class."""
    pytest.importorskip("sklearn", reason=SCIKIT_LEARN)
    values = np.random.default_rng(0).integers(-128, 128, (20, 2, 3, 1)).astype(np.int8)
    weights, biases = tested.logistic_regression(values, np.full(20, 1), 3)
    assert not weights.any() and biases.argmax() == 1


def test_few_samples_and_rare_classes_have_baselines(blobs: Dataset) -> None:
    """There are fewer training samples than the largest k, or the samples that choose the regularisation lack a class."""
    pytest.importorskip("sklearn", reason=SCIKIT_LEARN)
    few = np.sort(np.concatenate([np.flatnonzero(blobs.parts == part)[:count] for part, count in ((0, 10), (1, 4), (2, 4))]))
    small = replace(blobs, values=blobs.values[few], labels=blobs.labels[few] % 2, parts=blobs.parts[few], classes=("a", "b"))
    *_, nearest = baselines(small)
    assert nearest.setting in ("k = 1", "k = 3", "k = 7")
    for labels in (np.arange(5000) >= 4998, np.arange(5000) >= 4999, np.maximum(0, np.arange(5000) - 4997)):
        values = np.random.default_rng(0).integers(-128, 128, (5000, 1, 2, 1)).astype(np.int8)
        weights, _ = tested.logistic_regression(values, labels.astype(np.int64), 3)
        assert np.isfinite(weights).all() and weights.any()


def test_scores_of_nearest_neighbours_are_bold_if_they_are_mostly_right_and_zero_for_an_unseen_class() -> None:
    pytest.importorskip("sklearn", reason=SCIKIT_LEARN)
    rng, labels, bold = np.random.default_rng(0), np.arange(60) % 2 * 2, list[float]()
    values = np.clip(rng.normal(40 * (labels - 1)[:, None], 12, (60, 6)), -128, 127).astype(np.int8).reshape(60, 2, 3, 1)
    for own in (labels, rng.permutation(labels)):
        weights, biases = tested.nearest_neighbours(values, own, 3, 30)
        scores = np.maximum(values.reshape(60, -1) @ weights.T + biases, 0).reshape(60, 30, 3).max(axis=1)
        assert (scores.argmax(axis=1) == own).all() and not scores[:, 1].any(), "each sample is its own nearest neighbour"
        bold.append(float(np.abs(scores[:, 2] - scores[:, 0]).mean()))
    assert 3 < bold[0] < 10 and 0 < bold[1] < 1, "never certain, because the labels are smoothed"
