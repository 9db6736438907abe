"""Equalisation and bias correction keep the float network, raise the SQNR of the int8 one, and report the gain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cases.floats import WINDOW, convolution, fixed, float_graph, random_network

from tinyweave import ops
from tinyweave.ir import Graph
from tinyweave.quantize.calibrate import calibrate
from tinyweave.quantize.calibration_samples import open_samples
from tinyweave.quantize.convert import to_int8
from tinyweave.quantize.equalise import equalised
from tinyweave.quantize.evaluate import outputs
from tinyweave.quantize.fidelity import best_classes, fidelity, is_classifier, sqnr
from tinyweave.quantize.layerwise import bias_corrected
from tinyweave.quantize.ptq import QuantiseOptions, quantise
from tinyweave.quantize.simplify_float import simplify_float


def samples(graph: Graph, count: int = 24, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {n: rng.normal(size=(count, *graph.tensors[n].shape)).astype(np.float32) for n in graph.inputs}


def int8(graph: Graph, inputs: dict[str, np.ndarray]) -> Graph:
    made = calibrate(graph, inputs, "minmax")
    return to_int8(graph, made.groups, made.quants)


def uneven(depthwise: bool) -> Graph:
    """Return two convolutions whose channels between them differ in range by factors of 1 to 300."""
    rng = np.random.default_rng(2)
    spread = np.geomspace(1, 300, 8)
    second = (1, 3, 3, 8) if depthwise else (6, 3, 3, 8)
    tensors = [
        fixed("w0", rng.normal(size=(8, 3, 3, 4)) * spread[:, None, None, None] / 6),
        fixed("b0", rng.normal(size=8) * spread),
        fixed("w1", rng.normal(size=second) / spread / 8),
        fixed("b1", rng.normal(size=second[3 if depthwise else 0])),
    ]
    kind = "depthwise_conv_2d" if depthwise else "conv_2d"
    steps = [
        ("conv_2d", ("x", "w0", "b0"), WINDOW | {"activation": "relu"}),
        (kind, ("t0", "w1", "b1"), WINDOW | {"activation": "none"}),
    ]
    return float_graph(tensors, steps)


@pytest.mark.parametrize("depthwise", [False, True])
def test_equalised_channels_compute_the_same_and_lose_less(depthwise: bool) -> None:
    graph = uneven(depthwise)
    inputs = samples(graph)
    even = equalised(graph, inputs)
    before, after = (outputs(g, inputs)[0] for g in (graph, even))
    assert np.allclose(before, after, rtol=1e-4, atol=1e-4 * np.abs(before).max())
    assert sqnr(even, int8(even, inputs), inputs) > sqnr(graph, int8(graph, inputs), inputs) + 6


@pytest.mark.parametrize("seed", range(10))
def test_equalising_any_network_keeps_its_outputs(seed: int) -> None:
    graph = simplify_float(random_network(seed))
    inputs = samples(graph, 4)
    even = ops.check(equalised(graph, inputs))
    for before, after in zip(outputs(graph, inputs), outputs(even, inputs), strict=True):
        assert np.allclose(before, after, rtol=1e-3, atol=1e-4)


def test_channels_before_a_relu6_are_not_equalised() -> None:
    """ReLU6 clamps at 6, so a factor per channel does not commute with it."""
    graph = uneven(depthwise=False)
    first, second = graph.ops
    graph = replace(graph, ops=(replace(first, attrs={**first.attrs, "activation": "relu6"}), second))
    assert equalised(graph, samples(graph)) is graph


def test_bias_correction_undoes_shifted_biases_and_changes_only_biases() -> None:
    """Biases that were shifted are restored; weights and scales do not change."""
    graph = simplify_float(convolution(layers=3))
    inputs = samples(graph)
    small = int8(graph, inputs)
    tensors = dict(small.tensors)
    bias = small.input(small.ops[1], 2)
    tensors[bias.name] = replace(bias, data=bias.data + np.int32(3000))
    shifted = replace(small, tensors=tensors)
    mended = bias_corrected(graph, shifted, inputs)
    assert sqnr(graph, mended, inputs) > sqnr(graph, shifted, inputs) + 10
    assert sqnr(graph, mended, inputs) > sqnr(graph, small, inputs) - 0.5
    assert np.abs(mended.tensors[bias.name].data - bias.data).max() < 500
    for name, tensor in mended.tensors.items():
        assert tensor.dtype == "int32" or tensor is shifted.tensors[name]


def test_a_map_with_two_readers_is_not_equalised() -> None:
    graph = uneven(depthwise=False)
    graph = replace(graph, outputs=(*graph.outputs, graph.ops[0].outputs[0]))
    assert equalised(graph, samples(graph)) is graph


def test_fidelity_does_not_depend_on_the_chunk_size() -> None:
    graph = simplify_float(convolution(layers=2))
    inputs = samples(graph, 150)
    small = int8(graph, inputs)
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


def test_improvements_with_a_gain_are_kept_and_reported() -> None:
    graph = uneven(depthwise=True)
    given = open_samples(samples(graph, 32), graph)
    plain = quantise(graph, given, QuantiseOptions(method="minmax"))
    better = quantise(graph, given, QuantiseOptions(method="minmax", equalize=True, correct_bias=True))
    assert plain.gains == {} and list(better.gains) == ["equalised channels", "corrected biases"]
    inputs = given.batch(range(32))
    gained = sum(max(0.0, gain) for gain in better.gains.values())
    reached, before = sqnr(better.real, better.graph, inputs), sqnr(plain.real, plain.graph, inputs)
    assert better.gains["equalised channels"] > 6 and reached == pytest.approx(before + gained, abs=1e-6)


def test_an_improvement_that_loses_is_dropped() -> None:
    dropped = dict.fromkeys(("equalised channels", "corrected biases"), 0)
    for graph in (*map(random_network, range(12)), *(convolution(4, seed=seed) for seed in range(9))):
        given = open_samples(samples(graph), graph)
        plain = quantise(graph, given, QuantiseOptions(method="minmax"))
        better = quantise(graph, given, QuantiseOptions(method="minmax", equalize=True, correct_bias=True))
        inputs = given.batch(range(24))
        kept = sum(max(0.0, gain) for gain in better.gains.values())
        reached, before = sqnr(better.real, better.graph, inputs), sqnr(plain.real, plain.graph, inputs)
        assert reached == pytest.approx(before + kept, abs=1e-6), better.gains
        for option, gain in better.gains.items():
            dropped[option] += gain < 0
    assert min(dropped.values()) > 0, dropped
