"""Conversion of each op kind from float to int8: LiteRT's bytes, values within a few steps of float, and refusals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from cases.draw import activation, constant, integers, single_op
from cases.elementwise import DOMAINS
from cases.ops import GENERATORS, NOT_IN_LITERT, Case, cases

from tinyweave import ops
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError, Graph, Op, Quant, Tensor, verify
from tinyweave.ops import SPECS
from tinyweave.ops.recurrent import sequence
from tinyweave.ops.spec import Weights
from tinyweave.quantize.calibrate import calibrate
from tinyweave.quantize.convert import affine, dequantised, interval, quantised, to_int8, weight_scales
from tinyweave.quantize.scale_groups import scale_groups
from tinyweave.simulate import litert

RNG = np.random.default_rng(0)
# kinds that float networks lack: conversions, svdf (its scale depends on more than its values), and neg, which is a mul
WITHOUT_RULE = {"cast", "detection_postprocess", "lookup", "neg", "quantize", "reduce_prod", "svdf"}
WITH_RULE = {kind for kind, spec in SPECS.items() if spec.scale}
NOT_ALONE = {  # kinds whose cases say nothing of the rule, by where they are tested
    "div": "near a divisor of 0 a quotient has any error: tests/fuzz/formats.py",
    "dequantize": "its input is not float: tests/quantize/test_byte_inputs.py",
    "assign_variable": "it has no output: tests/importers/test_torch_state.py",
    "read_variable": "it has no input: tests/importers/test_torch_state.py",
}


def real(tensor: Tensor, values: np.ndarray) -> np.ndarray:
    return values if tensor.quant is None else dequantised(values, tensor.quant)


def float_cases(kind: str) -> Iterator[Case]:
    """Yield the cases of a kind in float32, except those without a float form or without values."""
    for case in cases(kind):
        old = case.graph.tensors
        if any(t.dtype not in ("int8", "int32", "int64") for t in old.values()) or not any(t.quant for t in old.values()):
            continue
        tensors = {}
        for tensor in old.values():
            data = None if tensor.data is None else real(tensor, tensor.data)
            dtype = "float32" if tensor.quant is not None else tensor.dtype
            tensors[tensor.name] = replace(tensor, dtype=dtype, data=data, quant=None)
        graph = replace(case.graph, tensors=tensors)
        try:
            ops.check(verify(graph))
        except CompileError:
            continue
        inputs = [[real(old[n], x) for n, x in zip(graph.inputs, arrays, strict=True)] for arrays in case.inputs]
        if kind in DOMAINS:
            low, high = DOMAINS[kind]
            margin = min(16 * old[graph.inputs[0]].scale, 0.05 * (high - low))
            inputs = [[np.clip(x, np.float32(low + margin), np.float32(high - margin))] for (x,) in inputs]
        if all(array.size for array in inputs[0]):
            yield Case(case.id, graph, inputs)


def int8_of(graph: Graph, samples: list[list[np.ndarray]], method: str = "minmax") -> Graph:
    stacked = {name: np.stack(arrays) for name, arrays in zip(graph.inputs, zip(*samples, strict=True), strict=True)}
    calibration = calibrate(graph, stacked, method)
    return to_int8(graph, calibration.groups, calibration.quants)


def as_int8(graph: Graph, arrays: list[np.ndarray]) -> list[np.ndarray]:
    return [
        quantised(x, t.quant) if t.quant else x for x, t in zip(arrays, (graph.tensors[n] for n in graph.inputs), strict=True)
    ]


def test_every_kind_has_a_rule_or_a_reason() -> None:
    assert SPECS.keys() == WITH_RULE | WITHOUT_RULE and not WITH_RULE & WITHOUT_RULE


@pytest.mark.litert
@pytest.mark.parametrize("kind", sorted(WITH_RULE - NOT_ALONE.keys()))
def test_a_float_op_becomes_an_int8_one(kind: str) -> None:
    """LiteRT computes the reference's bytes, which are within two steps of the float op's values."""
    pytest.importorskip("ai_edge_litert")
    tested = 0
    for case in islice(float_cases(kind), 12):
        try:
            graph = int8_of(case.graph, case.inputs)
        except CompileError as error:
            assert "scale" in str(error), case.id  # ranges that the kernel's arithmetic does not support
            continue
        assert not any(t.dtype == "float32" for t in graph.tensors.values())
        inputs = [as_int8(graph, arrays) for arrays in case.inputs]
        runs = [None] * len(inputs) if kind in NOT_IN_LITERT else litert.run(to_tflite(graph), inputs)
        for arrays, floats, run in zip(inputs, case.inputs, runs, strict=True):
            computed = ops.run(graph, dict(zip(graph.inputs, arrays, strict=True)))
            expected = ops.run(case.graph, dict(zip(graph.inputs, floats, strict=True)))
            right = computed.values() if run is None else run.outputs
            for (name, values), wanted in zip(computed.items(), right, strict=True):
                assert values.tobytes() == wanted.tobytes(), case.id
                if graph.tensors[name].quant is not None:
                    assert_near(graph, name, values, expected[name], case)
        tested += 1
    if not tested:
        pytest.skip(f"{kind} has no float32 form, or only cases of other types")


def steepest(case: Case) -> float:
    """Return the largest slope of a unary function between its inputs."""
    (op,), x = case.graph.ops, np.concatenate([x.ravel() for (x,) in case.inputs])
    points = np.linspace(x.min(), max(x.max(), 2 * x.min()), 10001)
    (values,) = ops.FLOAT32[op.kind].reference(case.graph, op, [points])
    return float(np.abs(np.diff(values) / np.diff(points)).max())


def gain(case: Case, index: int) -> float:
    """Return the largest factor by which an error of a recurrent layer's operand grows until the last step."""
    (op,), x = case.graph.ops, np.concatenate([arrays[0] for arrays in case.inputs])
    weights, again = (np.abs(case.graph.input(op, i).data) for i in (sequence.WEIGHTS, sequence.RECURRENT))
    bias = case.graph.optional_input(op, sequence.RECURRENT_BIAS)
    states = [np.ones(1), *(arrays[-1] for arrays in case.inputs if len(arrays) > 1)]
    states += [t.data for t in (case.graph.optional_input(op, sequence.STATE),) if t is not None and t.data is not None]
    for arrays in case.inputs:
        states += ops.run(case.graph, dict(zip(case.graph.inputs, arrays, strict=True))).values()
    hidden = max(float(np.abs(state).max()) for state in states)
    product = hidden * again.sum(axis=1).max() + (0.0 if bias is None else float(np.abs(bias.data).max()))
    gates = 1 + (hidden + 1 + product) / 4 if op.kind == "gru" else 1.0  # the slope of a logistic is at most 1/4
    once = {
        0: weights.sum(axis=1).max(),
        sequence.WEIGHTS: np.abs(x).sum(axis=2).max(),
        sequence.RECURRENT: hidden * again.shape[1],
        sequence.STATE: again.sum(axis=1).max(),
    }
    return float(gates * once.get(index, 1.0) * (1 + gates * again.sum(axis=1).max()) ** (x.shape[1] - 1))


def assert_near(graph: Graph, name: str, values: np.ndarray, expected: np.ndarray, case: Case) -> None:
    """Assert that int8 values are close to the float values, given the steps of the inputs."""
    (op,) = [op for op in graph.ops if op.kind != "quantize"]
    noise = 0.0
    for index, tensor in enumerate(graph.inputs_of(op)):
        if tensor is not None and tensor.quant is not None and index != (SPECS[op.kind].weights or Weights(0)).bias:
            size = steepest(case) if op.kind in DOMAINS else 1.0
            if SPECS[op.kind].family == "sequence":
                size = gain(case, index)
            if SPECS[op.kind].weights is not None or op.kind in ("mul", "batch_matmul", "prelu"):
                other = case.graph.input(op, 1 if index != 1 else SPECS[op.kind].data)
                bound = other.data if other.data is not None else np.concatenate([x.ravel() for x in case.inputs[0]])
                size = float(np.abs(bound).max()) * (
                    case.graph.input(op, 1).elements / values.shape[-1] if SPECS[op.kind].weights is not None else 1.0
                )
            noise += max(tensor.quant.scale) * size
    tensor = graph.tensors[name]
    error = np.abs(real(tensor, values) - np.clip(expected, *interval(tensor.quant or Quant((1.0,), (0,)))))
    assert error.max(initial=0) <= 1.5 * (tensor.scale + noise), case.id


def test_affine_represents_0_exactly_and_covers_the_range() -> None:
    for _ in range(1000):
        low, high = sorted(RNG.normal(size=2) * 10 ** RNG.uniform(-3, 3))
        quant = affine(low, high)
        assert -128 <= quant.zero_point[0] <= 127
        assert dequantised(quantised(np.zeros(1), quant), quant)[0] == 0
        least, most = interval(quant)
        step = quant.scale[0]
        assert least <= min(low, 0) + step and most >= max(high, 0) - step
        assert most - least == pytest.approx(max(high, 0) - min(low, 0), rel=1e-6)


def test_a_range_of_zeros_gets_scale_one() -> None:
    assert affine(0, 0) == Quant((1.0,), (0,))


def test_weight_scales_are_symmetric_and_large_enough_for_the_bias() -> None:
    weights = np.array([[1.0, -2.0], [0.0, 0.0], [1e-9, 0.0]], np.float32)
    bias = np.array([0.5, -3.0, 100.0], np.float32)
    scales = weight_scales(weights, 0, bias, 0.1)
    assert scales[0] == np.float32(2 / 127)
    assert np.all(np.abs(bias) / (0.1 * scales) <= 2**30 * (1 + 1e-6))
    values = quantised(weights, Quant(tuple(scales), (0, 0, 0), 0))
    assert values.min() == -127 and values[0, 0] == 64


def chain(*steps: tuple[str, tuple[str, ...], str, tuple[int, ...], dict[str, object]], inputs: tuple[Tensor, ...]) -> Graph:
    """Return a float graph of ops (kind, inputs, output, shape of the output, attributes)."""
    tensors = {t.name: t for t in inputs}
    made = []
    for number, (kind, sources, target, shape, attrs) in enumerate(steps):
        tensors[target] = Tensor(target, shape, "float32")
        made.append(Op(f"{kind}_{number}", kind, sources, (target,), attrs))
    used = {name for op in made for name in op.inputs}
    outputs = tuple(op.outputs[0] for op in made if op.outputs[0] not in used)
    return ops.check(verify(Graph("g", tensors, tuple(made), tuple(t.name for t in inputs if t.data is None), outputs)))


def real_input(name: str, shape: tuple[int, ...]) -> Tensor:
    return Tensor(name, shape, "float32")


JOIN = {"axis": 1, "activation": "none"}


def test_tensors_that_must_share_a_scale_are_in_one_group() -> None:
    graph = chain(
        ("reshape", ("a", "shape"), "r", (1, 4), {"new_shape": (1, 4)}),
        ("concatenation", ("r", "b"), "c", (1, 8), JOIN),
        ("relu", ("c",), "d", (1, 8), {}),
        inputs=(real_input("a", (4,)), real_input("b", (1, 4)), integers("shape", 1, 4)),
    )
    found = scale_groups(graph)
    assert sorted(map(sorted, found.members().values())) == [["a", "b", "c", "r"], ["d"]]


def test_different_fixed_scales_of_inputs_are_requantised() -> None:
    """The logistic keeps its scale of 1/256 and is requantised for the concatenation. Two logistics need no requantisation."""
    mixed = chain(
        ("logistic", ("a",), "p", (1, 4), {}),
        ("concatenation", ("p", "b"), "c", (1, 8), JOIN),
        inputs=(real_input("a", (1, 4)), real_input("b", (1, 4))),
    )
    samples = [[RNG.normal(size=(1, 4)).astype(np.float32), 10 * RNG.normal(size=(1, 4)).astype(np.float32)] for _ in range(20)]
    graph = int8_of(mixed, samples)
    assert [op.kind for op in graph.ops] == ["logistic", "quantize", "concatenation"]
    assert graph.tensors["p"].quant == Quant((1 / 256,), (-128,))
    assert graph.tensors["b"].quant == graph.tensors["c"].quant
    both = chain(
        ("logistic", ("a",), "p", (1, 4), {}),
        ("logistic", ("b",), "q", (1, 4), {}),
        ("concatenation", ("p", "q"), "c", (1, 8), JOIN),
        inputs=(real_input("a", (1, 4)), real_input("b", (1, 4))),
    )
    graph = int8_of(both, samples)
    assert [op.kind for op in graph.ops] == ["logistic", "logistic", "concatenation"]
    assert graph.tensors["c"].quant == Quant((1 / 256,), (-128,))


def test_an_input_with_a_fixed_scale_that_is_read_twice_is_requantised_twice() -> None:
    both = chain(
        ("softmax", ("a",), "s", (1, 4), {"beta": 1.0}),
        ("relu", ("a",), "r", (1, 4), {}),
        ("concatenation", ("s", "s", "r"), "c", (1, 12), JOIN),
        inputs=(real_input("a", (1, 4)),),
    )
    graph = int8_of(both, [[np.full((1, 4), 3.0, np.float32)]])
    assert Counter(op.kind for op in graph.ops) == {"softmax": 1, "relu": 1, "quantize": 2, "concatenation": 1}


def test_added_ops_have_names_that_are_valid_in_c() -> None:
    """Tensor names of PyTorch contain dots."""
    both = chain(
        ("softmax", ("a",), "parts.0", (1, 4), {"beta": 1.0}),
        ("relu", ("a",), "parts.1", (1, 4), {}),
        ("concatenation", ("parts.0", "parts.1"), "c", (1, 8), JOIN),
        inputs=(real_input("a", (1, 4)),),
    )
    graph = int8_of(both, [[np.full((1, 4), 3.0, np.float32)]])
    assert len(graph.ops) == 4 and all(op.name.isidentifier() for op in graph.ops)


def test_outputs_with_a_fixed_range_have_the_scale_that_tflite_requires() -> None:
    given = {"softmax": (1 / 256, -128), "logistic": (1 / 256, -128), "tanh": (1 / 128, 0), "log_softmax": (1 / 16, 127)}
    given["l2_normalization"] = (1 / 128, 0)
    for kind, (scale, zero) in given.items():
        assert SPECS[kind].output_quant == Quant((scale,), (zero,))
    assert given.keys() == {kind for kind, spec in SPECS.items() if spec.output_quant}


def test_a_concatenated_constant_widens_the_range() -> None:
    graph = chain(
        ("concatenation", ("a", "k"), "c", (1, 6), JOIN),
        inputs=(real_input("a", (1, 4)), constant("k", np.array([[-7.0, 9.0]], np.float32))),
    )
    made = int8_of(graph, [[np.ones((1, 4), np.float32)]])
    assert interval(made.tensors["c"].quant) == pytest.approx((-7, 9), abs=0.07)
    values = made.tensors["k"]
    assert values.quant == made.tensors["c"].quant
    assert dequantised(values.data, values.quant) == pytest.approx(np.array([[-7, 9]]), abs=0.04)


def test_shared_weights_may_be_quantised_differently() -> None:
    """The biases have different scales, because the inputs have."""
    shared = constant("w", RNG.normal(size=(4, 4)).astype(np.float32)), constant("b", RNG.normal(size=4).astype(np.float32))
    attrs = {"activation": "none", "keep_num_dims": False}
    graph = chain(
        ("fully_connected", ("x", "w", "b"), "y", (1, 4), attrs),
        ("fully_connected", ("y", "w", "b"), "z", (1, 4), attrs),
        inputs=(real_input("x", (1, 4)), *shared),
    )
    made = int8_of(graph, [[10 * RNG.normal(size=(1, 4)).astype(np.float32)] for _ in range(20)])
    first, second = made.ops
    assert first.inputs[1] == second.inputs[1] and first.inputs[2] != second.inputs[2]
    for op in made.ops:
        bias, weights = made.input(op, 2), made.input(op, 1)
        expected = made.input(op).scale * np.array(weights.quant.scale)
        assert np.allclose(bias.quant.scale, expected)
        assert np.all(np.abs(bias.data * expected - graph.tensors["b"].data) <= expected / 2 * (1 + 1e-5))


def test_all_kinds_without_a_rule_are_named_in_one_error() -> None:
    rng = np.random.default_rng(0)
    float_to_int = single_op("quantize", [real_input("x", (1, 4))], activation("y", (), rng), {})
    more = Op("cast_1", "cast", ("y",), ("z",), {})
    graph = replace(
        float_to_int,
        tensors={**float_to_int.tensors, "z": Tensor("z", (1, 4), "float32")},
        ops=(*float_to_int.ops, more),
        outputs=("z",),
    )
    with pytest.raises(CompileError, match=r"2 ops cannot be quantised: quantize \(1\), cast \(1\); the first is quantize_0"):
        to_int8(graph, scale_groups(replace(graph, ops=())), {})


def test_an_int8_model_is_refused_as_quantised_already() -> None:
    graph = next(cases("relu")).graph
    with pytest.raises(CompileError, match="it is quantised already"):
        to_int8(graph, scale_groups(graph), {})


def test_an_int8_model_with_float_edges_is_refused_as_quantised_already() -> None:
    rng = np.random.default_rng(0)
    graph = single_op("quantize", [real_input("x", (1, 4))], activation("y", (), rng), {})
    with pytest.raises(CompileError, match="it is quantised already"):
        to_int8(graph, scale_groups(replace(graph, ops=())), {})


def test_weights_that_are_not_finite_are_refused() -> None:
    weights = constant("w", np.array([[1.0, np.nan]], np.float32))
    graph = chain(
        ("fully_connected", ("x", "w"), "y", (1, 1), {"activation": "none", "keep_num_dims": False}),
        inputs=(real_input("x", (1, 2)), weights),
    )
    quants = dict.fromkeys(("x", "y"), Quant((0.1,), (0,)))
    with pytest.raises(CompileError, match="tensor 'w': holds values that are not finite"):
        to_int8(graph, scale_groups(graph), quants)


def test_every_generated_kind_is_tested() -> None:
    assert set(GENERATORS) >= WITH_RULE
