"""Batches of samples, folding before quantisation, and the scales that calibration chooses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cases.draw import constant, integers
from cases.floats import convolution, fixed, float_graph, random_network
from cases.sweeps import rest_in_sweeps

from tinyweave import ops
from tinyweave.ir import CompileError, Graph, Tensor
from tinyweave.ops import SPECS
from tinyweave.ops.extrema import COMPARISONS
from tinyweave.ops.functions import FUNCTIONS
from tinyweave.passes import run_passes
from tinyweave.quantize.calibrate import (
    TRIED,
    calibrate,
    clamped_ranges,
    collect_histograms,
    evenly_spaced,
    fake_quantised,
    noise_to_signal,
    signal_tensors,
)
from tinyweave.quantize.convert import dequantised, quantised, to_int8
from tinyweave.quantize.evaluate import evaluate, outputs
from tinyweave.quantize.fidelity import sqnr
from tinyweave.quantize.ranges import METHODS
from tinyweave.quantize.simplify_float import simplify_float

SEEDS = range(20)


def samples(graph: Graph, count: int = 5, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {n: rng.normal(size=(count, *graph.tensors[n].shape)).astype(np.float32) for n in graph.inputs}


def sample_by_sample(graph: Graph, inputs: dict[str, np.ndarray], keep: bool) -> list[dict[str, np.ndarray]]:
    return [ops.run(graph, {n: x[i] for n, x in inputs.items()}, keep) for i in range(len(next(iter(inputs.values()))))]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_batch_of_samples_gives_the_same_as_single_samples(seed: int) -> None:
    graph = random_network(seed)
    inputs = samples(graph)
    together, alone = evaluate(graph, inputs, keep=True), sample_by_sample(graph, inputs, keep=True)
    assert together.keys() == alone[0].keys()
    for name, values in together.items():
        assert np.allclose(values, np.stack([run[name] for run in alone]), rtol=1e-6, atol=1e-6), name
    calibration = calibrate(graph, inputs, "minmax")
    small = to_int8(graph, calibration.groups, calibration.quants)
    integers = {n: quantised(x, small.tensors[n].quant) for n, x in inputs.items()}
    for name, values in zip(small.outputs, outputs(small, integers), strict=True):
        assert np.array_equal(values, np.stack([run[name] for run in sample_by_sample(small, integers, keep=False)])), name


@pytest.mark.parametrize("mask", [-1e4, None])
def test_scores_count_wholly_unless_a_mask_lowers_them(mask: float | None) -> None:
    """Logits of a classifier may be far apart, too: only what a constant mask lowers is left out of a range."""
    added = constant("m", np.array([[0.0, 1.0, mask or -1.0]], np.float32))
    steps = [("add", ("x", "m"), {"activation": "none"}), ("softmax", ("t0",), {"beta": 1.0})]
    graph = float_graph([added], steps, x=(1, 3))
    seen = collect_histograms(graph, {"x": np.array([[[90.0, -80.0, 2.0]]], np.float32)})["t0"]
    assert (seen.low, seen.high) == (0.0 if mask else -79.0, 90.0)


def test_random_networks_contain_every_kind_with_a_float_form() -> None:
    kinds = {op.kind for seed in range(200) for op in random_network(seed).ops}
    wanted = {kind for kind, spec in ops.SPECS.items() if spec.scale and kind in ops.FLOAT32}
    elsewhere = {"prelu", "unidirectional_sequence_lstm", "batch_matmul", "elu", "gelu", "rsqrt", "squared_difference"}
    elsewhere |= {spec.kind for spec in FUNCTIONS}
    elsewhere |= {*COMPARISONS, "select_v2", "gru", "simple_rnn", "stateless_lstm"}  # random PyTorch networks draw them
    elsewhere |= {"div", "l2_normalization", "sum"}  # random networks of files draw them: fuzz/formats.py
    assert wanted - kinds <= elsewhere, wanted - kinds


def test_changed_constants_and_tensors_change_only_later_ops() -> None:
    graph = convolution(layers=3)
    inputs = samples(graph)
    before = evaluate(graph, inputs, keep=True)
    second = graph.ops[1]
    weights = graph.input(second, 1)
    after = evaluate(graph, inputs, keep=True, constants={weights.name: 2 * weights.data})
    for op in graph.ops:
        assert np.array_equal(before[op.outputs[0]], after[op.outputs[0]]) == (op is graph.ops[0])
    later = evaluate(graph, before | {second.outputs[0]: after[second.outputs[0]]}, ops={graph.ops[2].name})
    assert np.array_equal(later[graph.outputs[0]], after[graph.outputs[0]])


def batch_norm(activation: str = "relu") -> Graph:
    """Return a convolution, a mul and an add per channel (batch normalisation), and an unfused activation."""
    rng = np.random.default_rng(3)
    graph = convolution(layers=1, activation="none")
    (op,) = graph.ops
    factor = constant("factor", rng.uniform(0.5, 2, 8).astype(np.float32))
    summand = constant("summand", rng.normal(size=(1, 1, 1, 8)).astype(np.float32))
    return float_graph(
        [t for t in graph.tensors.values() if t.data is not None or t.name in graph.inputs] + [factor, summand],
        [
            (op.kind, op.inputs, op.attrs),
            ("mul", ("t0", "factor"), {"activation": "none"}),
            ("add", ("summand", "t1"), {"activation": "none"}),
            (activation, ("t2",), {}),
        ],
    )


def test_batch_normalisation_and_activation_are_folded_into_the_convolution() -> None:
    graph = batch_norm()
    prepared = simplify_float(graph)
    (op,) = prepared.ops
    assert op.kind == "conv_2d" and op.attrs["activation"] == "relu"
    inputs = samples(graph)
    assert np.allclose(outputs(graph, inputs)[0], outputs(prepared, inputs)[0], atol=1e-5)


LEAST, MOST = fixed("least", np.float32(-0.3)), fixed("most", np.float32(0.5))
LOW, HIGH = ("maximum", ("t0", "least"), {}), ("minimum", ("t1", "most"), {})
POOL = {"kernel": (2, 2), "stride": (2, 2), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "activation": "none"}
CLAMPS = {  # ops after a convolution, and the range that they leave of its output
    "maximum and minimum": ([LOW, HIGH], (-0.3, 0.5)),
    "minimum and maximum": ([("minimum", ("most", "t0"), {}), ("maximum", ("t1", "least"), {})], (-0.3, 0.5)),
    "maximum": ([LOW], (-0.3, np.inf)),
    "a limit for each channel": ([("minimum", ("t0", "limits"), {})], (-np.inf, 0.8)),
    "relu": ([("max_pool_2d", ("t0",), POOL), ("relu", ("t1",), {})], (0, np.inf)),
    "relu6": ([("max_pool_2d", ("t0",), POOL), ("relu6", ("t1",), {})], (0, 6)),
    "relu1": ([("max_pool_2d", ("t0",), POOL), ("relu_n1_to_1", ("t1",), {})], (-1, 1)),
    "hard swish": ([("hard_swish", ("t0",), {})], (-3, np.inf)),
    "moves": ([("concatenation", ("t0", "t0"), {"axis": 3, "activation": "none"}), ("maximum", ("t1", "least"), {}),
               ("minimum", ("t2", "most"), {})], (-0.3, 0.5)),
    "two clamps": ([LOW, ("relu", ("t0",), {})], (-0.3, np.inf)),
    "another reader": ([LOW, HIGH, ("add", ("t0", "t2"), {"activation": "none"})], None),
    "an average": ([("average_pool_2d", ("t0",), POOL), ("relu", ("t1",), {})], None),
    "no clamp": ([("logistic", ("t0",), {})], None),
}  # fmt: skip


def clamped(name: str) -> Graph:
    """Return a convolution with a wide output, and ops of CLAMPS after it."""
    graph = convolution(layers=1, activation="none")
    (op,) = graph.ops
    known = [t for t in graph.tensors.values() if t.data is not None or t.name in graph.inputs]
    each = fixed("limits", np.linspace(0.1, 0.8, 8))
    return float_graph([*known, LEAST, MOST, each], [(op.kind, op.inputs, op.attrs), *CLAMPS[name][0]])


@pytest.mark.parametrize("name", CLAMPS)
def test_the_range_that_later_ops_clamp_to_is_found(name: str) -> None:
    graph, expected = clamped(name), CLAMPS[name][1]
    assert clamped_ranges(graph).get("t0") == (expected if expected is None else pytest.approx(expected))
    assert "x" not in clamped_ranges(graph) and "t0" not in clamped_ranges(replace(graph, outputs=("t0", *graph.outputs)))
    inputs = samples(graph)
    values = evaluate(graph, inputs, keep=True)
    limited = {"t0": np.clip(values["t0"], *(expected or (-np.inf, np.inf)))}
    again = evaluate(graph, values | limited, ops={op.name for op in graph.ops[1:]}, keep=True)
    assert all(np.array_equal(values[out], again[out]) for out in graph.outputs)


@pytest.mark.parametrize("method", ["minmax", "auto"])
@pytest.mark.parametrize("name", ["maximum and minimum", "minimum and maximum", "moves", "relu", "relu1"])
def test_the_scale_of_a_clamped_layer_is_that_of_the_clamp(name: str, method: str) -> None:
    """The output of the layer has a range of 8 or more, so its scale would lose 13 dB."""
    graph = simplify_float(clamped(name))
    inputs = samples(graph, count=8)
    calibration = calibrate(graph, inputs, method)
    assert np.ptp(evaluate(graph, inputs, keep=True)["t0"]) > 8
    assert calibration.of("t0").scale[0] == pytest.approx(calibration.of(graph.outputs[0]).scale[0], rel=0.1)
    small = to_int8(graph, calibration.groups, calibration.quants)
    assert sqnr(graph, small, inputs) > 28
    assert not [op.kind for op in run_passes(small, io="int8")[0].ops if op.kind in ("maximum", "minimum")]


def test_a_tensor_with_two_readers_is_not_folded() -> None:
    """The factor cannot be folded into the convolution if another op reads the convolution's output."""
    graph = replace(batch_norm(), outputs=("t3", "t0"))
    prepared = simplify_float(graph)
    assert [op.kind for op in prepared.ops] == ["conv_2d", "mul", "add"] or [op.kind for op in prepared.ops][1] == "mul"
    inputs = samples(graph)
    for one, two in zip(outputs(graph, inputs), outputs(prepared, inputs), strict=True):
        assert np.allclose(one, two, atol=1e-5)


def test_a_global_average_pool_becomes_a_mean_with_its_own_scale() -> None:
    """A map with a few large values has small means, for which the map's scale is too coarse."""
    pool = {"kernel": (8, 8), "stride": (8, 8), "padding": ((0, 0), (0, 0)), "activation": "none"}
    graph = float_graph([], [("average_pool_2d", ("x",), pool)])
    prepared = simplify_float(graph)
    assert [op.kind for op in prepared.ops] == ["mean"]
    inputs = samples(graph)
    assert np.allclose(outputs(graph, inputs)[0], outputs(prepared, inputs)[0], atol=1e-6)
    part = replace(graph.ops[0], attrs={**pool, "kernel": (4, 8), "stride": (4, 8)})
    whole = replace(graph, ops=(part,), tensors={**graph.tensors, "t0": replace(graph.tensors["t0"], shape=(1, 2, 1, 4))})
    assert simplify_float(whole).ops[0].kind == "average_pool_2d"


def test_the_square_of_a_small_difference_gets_a_supported_scale() -> None:
    graph = float_graph([constant("one", np.ones(4, np.float32))], [
        ("add", ("x", "one"), {"activation": "none"}), ("squared_difference", ("x", "t0"), {}),
    ])  # fmt: skip
    inputs = {"x": 1e5 * samples(graph)["x"]}
    made = calibrate(graph, inputs, "minmax")
    ops.check(to_int8(graph, made.groups, made.quants))


def test_the_weights_of_a_dynamic_range_model_become_floats() -> None:
    graph = convolution(layers=2)
    made = calibrate(graph, samples(graph), "minmax")
    small = to_int8(graph, made.groups, made.quants)
    tensors = dict(graph.tensors)
    for op in graph.ops:
        tensors[op.inputs[1]] = small.tensors[op.inputs[1]]
    with pytest.raises(CompileError):
        ops.check(replace(graph, tensors=tensors))
    prepared = simplify_float(replace(graph, tensors=tensors))
    inputs = samples(graph)
    names = prepared.outputs
    before, after = (dict(zip(names, outputs(g, inputs), strict=True)) for g in (graph, prepared))
    assert 0 < noise_to_signal(before, after, names) < 1e-3


@pytest.mark.parametrize("method", ["auto", *METHODS])
def test_every_method_gives_a_high_sqnr(method: str) -> None:
    graph = convolution(layers=3)
    inputs = samples(graph, 40)
    made = calibrate(graph, inputs, method)
    small = to_int8(graph, made.groups, made.quants)
    (values,) = outputs(small, {n: quantised(x, small.tensors[n].quant) for n, x in inputs.items()})
    (expected,), (name,) = outputs(graph, inputs), graph.outputs
    real = dequantised(values, small.tensors[name].quant)
    assert noise_to_signal({name: expected}, {name: real}, (name,)) < 10 ** (-2.0)
    assert set(made.methods.values()) <= {method} or method == "auto"


def test_auto_is_no_worse_at_the_output_than_each_method() -> None:
    """With a rare outlier in the input, the least error of that tensor alone would be another choice."""
    graph = convolution(layers=3)
    inputs = samples(graph, 40)
    (name,) = graph.inputs
    inputs[name][7, 0, 0, 0, 0] = 60.0

    def at_output(method: str) -> float:
        made = calibrate(graph, inputs, method)
        small = to_int8(graph, made.groups, made.quants)
        (values,) = outputs(small, {n: quantised(x, small.tensors[n].quant) for n, x in inputs.items()})
        (expected,), (out,) = outputs(graph, inputs), graph.outputs
        return noise_to_signal({out: expected}, {out: dequantised(values, small.tensors[out].quant)}, (out,))

    assert at_output("auto") <= 1.1 * min(map(at_output, METHODS))


@pytest.mark.parametrize("seeds", rest_in_sweeps([range(4), range(4, 12)], 1), ids=str)
def test_auto_is_no_worse_than_one_method_for_all_tensors(seeds: range) -> None:
    """`auto` compares errors with all activations quantised and float weights."""

    def together(graph: Graph, inputs: dict[str, np.ndarray], method: str) -> float:
        made = calibrate(graph, inputs, method)
        exact = evaluate(graph, inputs, keep=True)
        kept = evaluate(graph, inputs, visit=lambda name, values: fake_quantised(values, made.of(name)), keep=True)
        return noise_to_signal(exact, kept, signal_tensors(graph))

    for seed in seeds:
        graph = random_network(seed)
        inputs = samples(graph, 24)
        assert together(graph, inputs, "auto") <= 1.04 * min(together(graph, inputs, method) for method in METHODS), seed


def test_auto_tries_a_sample_far_above_the_others() -> None:
    """The sample is not one of those that candidates are always tried on; a range without it loses most of the signal."""
    graph = simplify_float(convolution(layers=2))
    inputs = samples(graph, 48)
    (outside,) = np.setdiff1d(np.arange(48), evenly_spaced(TRIED, 48))[:1]
    inputs["x"][outside, ..., 0] *= np.geomspace(1, 40, 64).reshape(8, 8)
    lost = {}
    for method in ("auto", "minmax"):
        calibration = calibrate(graph, inputs, method)
        small = to_int8(graph, calibration.groups, calibration.quants)
        lost[method] = -sqnr(graph, small, inputs)
    assert lost["auto"] < lost["minmax"] + 3


def test_noise_is_measured_at_the_input_of_a_softmax() -> None:
    tensors = [constant("w", np.ones((4, 4), np.float32))]
    dense = ("fully_connected", ("x", "w"), {"activation": "none", "keep_num_dims": False})
    graph = float_graph(tensors, [dense, ("softmax", ("t0",), {"beta": 1.0})], x=(1, 4))
    assert signal_tensors(graph) == ("t0",)
    assert signal_tensors(convolution(layers=1)) == ("t0",)


@pytest.mark.parametrize("mask", ["add", "select_v2"])
def test_noise_is_not_measured_at_masked_scores(mask: str) -> None:
    """The scores of masked elements saturate, whatever their size, and softmax makes them 0."""
    hides = np.tri(6, dtype=bool)
    operands = ("x", "scores") if mask == "add" else ("hides", "low", "x")
    tensors = [
        constant("hides", hides),
        constant("low", np.float32([-1e4])),
        constant("scores", np.where(hides, np.float32(-1e4), np.float32(0))),
    ]
    attrs = {"activation": "none"} if mask == "add" else {}
    graph = float_graph(tensors, [(mask, operands, attrs), ("softmax", ("t0",), {"beta": 1.0})], x=(1, 6, 6))
    assert signal_tensors(graph) == ("t1",)


def test_a_nan_activation_is_refused_with_its_tensor() -> None:
    graph = convolution(layers=1)
    inputs = samples(graph)
    inputs["x"][0, 0, 0, 0] = np.nan
    with pytest.raises(CompileError, match="tensor 'x': becomes infinite or NaN on a calibration sample"):
        collect_histograms(graph, inputs)


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(CompileError, match="the method best is unknown; it is one of auto, minmax"):
        calibrate(convolution(layers=1), {}, "best")


def test_a_constant_with_a_batch_axis_is_not_applied_per_sample() -> None:
    graph = float_graph(
        [constant("c", np.array([[1.0], [5.0]], np.float32))], [("add", ("x", "c"), {"activation": "none"})], (2, 4)
    )
    inputs = samples(graph, 3)
    assert np.allclose(outputs(graph, inputs)[0], inputs["x"] + np.array([[1.0], [5.0]]))


@pytest.mark.parametrize("kind", ["hard_swish", "relu6", "relu_n1_to_1", "softmax", "logistic", "relu"])
def test_tiny_values_get_a_scale_that_the_kernels_support(kind: str) -> None:
    """Untrained networks may have maps of 1e-9."""
    attrs = {"beta": 1.0} if kind == "softmax" else {}
    graph = float_graph([], [(kind, ("x",), attrs)], x=(1, 8))
    inputs = {"x": samples(graph)["x"] * np.float32(1e-12)}
    made = calibrate(graph, inputs, "minmax")
    assert ops.check(to_int8(graph, made.groups, made.quants))
    fused = convolution(layers=2, activation="relu6")
    tiny = {n: x * np.float32(1e-12) for n, x in samples(fused).items()}
    small = replace(fused, tensors={n: _scaled(t, 1e-12) if n.startswith("b") else t for n, t in fused.tensors.items()})
    made = calibrate(small, tiny, "minmax")
    assert to_int8(small, made.groups, made.quants)


def test_a_sum_that_nearly_cancels_gets_a_scale_that_the_kernel_supports() -> None:
    graph = float_graph(
        [constant("c", np.full((1, 8), -1000.0, np.float32))], [("add", ("x", "c"), {"activation": "relu"})], x=(1, 8)
    )
    inputs = {"x": np.full((4, 1, 8), 1000.0, np.float32)}
    inputs["x"][0, 0, 0] += np.float32(1e-3)
    made = calibrate(graph, inputs, "minmax")
    small = to_int8(graph, made.groups, made.quants)
    assert small.tensors["t0"].scale == pytest.approx(small.tensors["x"].scale / 64)
    zero = float_graph([constant("c", np.zeros((1, 8), np.float32))], [("add", ("x", "c"), {"activation": "none"})], x=(1, 8))
    made = calibrate(zero, {"x": np.full((1, 1, 8), 1e-9, np.float32)}, "minmax")
    small = to_int8(zero, made.groups, made.quants)
    assert small.tensors["c"].scale == small.tensors["t0"].scale


def _scaled(tensor: Tensor, factor: float) -> Tensor:
    assert tensor.data is not None
    return replace(tensor, data=tensor.data * np.float32(factor))


def test_reshapes_are_applied_to_each_sample() -> None:
    graph = float_graph([integers("shape", 4, 2)], [("reshape", ("x", "shape"), {"new_shape": (4, 2)})], x=(1, 8))
    inputs = samples(graph, 3)
    assert np.array_equal(outputs(graph, inputs)[0], inputs["x"].reshape(3, 4, 2))
    assert "reshape" in SPECS


@pytest.mark.parametrize(("count", "total"), [(1, 9), (2, 9), (5, 17), (4, 10), (9, 9), (20, 9)])
def test_evenly_spaced_samples_reach_from_the_first_to_the_last(count: int, total: int) -> None:
    chosen = evenly_spaced(count, total)
    assert len(chosen) == min(count, total) and chosen[0] == 0 and (count == 1 or chosen[-1] == total - 1)
    steps = np.diff(chosen)
    assert count == 1 or (steps.min() >= 1 and steps.max() <= steps.min() + 1)
