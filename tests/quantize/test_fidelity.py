"""The error of an int8 network relative to the float one, and the classes by which both are compared."""

from __future__ import annotations

import numpy as np
import pytest
from cases.floats import convolution, float_graph

from tinyweave.quantize.calibrate import calibrate
from tinyweave.quantize.calibration_samples import open_samples
from tinyweave.quantize.convert import to_int8
from tinyweave.quantize.fidelity import best_classes, fidelity, is_classifier, sqnr
from tinyweave.quantize.simplify_float import simplify_float


def test_fidelity_does_not_depend_on_the_chunk_size() -> None:
    graph = simplify_float(convolution(layers=2))
    inputs = {"x": np.random.default_rng(0).normal(size=(150, *graph.tensors["x"].shape)).astype(np.float32)}
    made = calibrate(graph, inputs, "minmax")
    small = to_int8(graph, made.groups, made.quants)
    near = fidelity(graph, small, open_samples(inputs, graph))
    assert near.samples == 150 and near.sqnr_db == pytest.approx(sqnr(graph, small, inputs), abs=1e-3)
    assert near.agreement is None and near.accuracy is None


def test_a_single_probability_is_a_classifier_of_two_classes() -> None:
    graph = float_graph([], [("logistic", ("x",), {})], x=(1, 1))
    assert is_classifier(graph)
    assert best_classes(np.array([[[0.2]], [[0.5]], [[0.9]]])).tolist() == [[0], [1], [1]]


def test_of_equal_scores_the_lower_class_is_better() -> None:
    scores = np.random.default_rng(0).integers(-4, 4, (50, 12)).astype(np.float32)
    best = best_classes(scores[:, None])
    assert best.tolist() == [sorted(range(12), key=lambda label: (-each[label], label))[:5] for each in scores]
    np.testing.assert_array_equal(best[:, 0], scores.argmax(axis=1))
    assert best_classes(scores[:, :3]).shape == (50, 3)
