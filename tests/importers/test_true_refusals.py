"""Refusals name the cause: axes out of range, non-finite constants, versions, types, networks without ops."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tflite

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install '.[onnx]'")

from cases.draw import constant, single_op  # noqa: E402
from cases.from_onnx import check_refused, floats, ints, model, one  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402

from tinyweave import api, ops  # noqa: E402
from tinyweave.exporters.tflite import to_tflite  # noqa: E402
from tinyweave.importers.onnx import from_onnx  # noqa: E402
from tinyweave.importers.tflite import from_tflite  # noqa: E402
from tinyweave.ir import CompileError, Graph, Op, Quant, Tensor, verify  # noqa: E402

MAP = (1, 4, 6, 8)
# op -> its other inputs and its attributes, for a given axis
ALONG: dict[str, tuple[Any, Any]] = {
    "Concat": (lambda axis: [floats(*MAP)], lambda axis: {"axis": axis}),
    "Flatten": (lambda axis: [], lambda axis: {"axis": axis}),
    "Gather": (lambda axis: [np.array(0)], lambda axis: {"axis": axis}),
    "LayerNormalization": (lambda axis: [np.ones(8, np.float32)], lambda axis: {"axis": axis}),
    "LogSoftmax": (lambda axis: [], lambda axis: {"axis": axis}),
    "Pad": (lambda axis: [ints(1, 1), None, ints(axis)], lambda axis: {}),
    "ReduceMax": (lambda axis: [ints(axis)], lambda axis: {}),
    "ReduceMean": (lambda axis: [ints(axis)], lambda axis: {}),
    "ReduceSum": (lambda axis: [ints(axis)], lambda axis: {}),
    "Slice": (lambda axis: [ints(0), ints(1), ints(axis)], lambda axis: {}),
    "Softmax": (lambda axis: [], lambda axis: {"axis": axis}),
    "Split": (lambda axis: [ints(1, 3)], lambda axis: {"axis": axis}),
    "Squeeze": (lambda axis: [ints(axis)], lambda axis: {}),
    "Transpose": (lambda axis: [], lambda axis: {"perm": [0, 1, 2, axis]}),
    "Unsqueeze": (lambda axis: [ints(axis)], lambda axis: {}),
}


def op_on_axis(op: str, axis: int) -> bytes:
    given, attributes = (part(axis) for part in ALONG[op])
    outputs = ("y", "z") if op == "Split" else ("y",)
    return model(one(op, *MAP, outputs=outputs, given=given, **attributes), opset=18)


@pytest.mark.parametrize("axis", [99, -99, 5])
@pytest.mark.parametrize("op", ALONG)
def test_an_axis_out_of_range_is_refused(op: str, axis: int) -> None:
    check_refused(op_on_axis(op, axis), f"its axis {axis} is out of range for {5 if op == 'Unsqueeze' else 4}")


def test_a_permutation_with_an_axis_twice_is_refused() -> None:
    check_refused(model(one("Transpose", *MAP, perm=[0, 1, 1, 3])), "its axes [0, 1, 1, 3] are not a permutation of 4")


@pytest.mark.parametrize("variance", [-1.0, -1e-5, np.nan])
def test_a_variance_that_is_not_positive_is_refused_without_a_warning(variance: float) -> None:
    given = [*(np.ones(4, np.float32) for _ in range(3)), np.array([1, variance, 1, 1], np.float32)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_refused(model(one("BatchNormalization", *MAP, given=given)), "its variance is not positive in 1 of 4 channels")


def sum_with_constant_op(op: str, value: float) -> Any:
    """Return a model that adds the output of an op on a constant to the input."""
    return [(op, ("c",), ("d",), {}), ("Add", ("x", "d"), ("y",), {})], {"x": MAP}, {"c": np.float32([value])}


ODD: dict[str, Any] = {
    "a divisor of nearly 0": one("Div", *MAP, given=[np.float32(1e-45)]),
    "a large scale": one("BatchNormalization", *MAP, given=[np.full(4, v, np.float32) for v in (3e38, 0, 3e38, 1)]),
    "a negative root": sum_with_constant_op("Sqrt", -1),
    "a large exponent": sum_with_constant_op("Exp", 1e4),
}


@pytest.mark.parametrize("name", ODD)
def test_constants_that_overflow_or_divide_by_zero_are_refused_without_a_warning(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_refused(model(ODD[name]), "computing its constants overflows or divides by 0")


def test_the_refusal_of_infinite_constants_advises_a_finite_mask() -> None:
    mask = np.triu(np.full((8, 8), -np.inf, np.float32), 1)
    check_refused(model(one("Add", 1, 1, 8, 8, given=[mask])), "if it is a mask, give it finite numbers")


def test_an_op_without_an_importer_function_is_refused_by_name() -> None:
    check_refused(model(one("Det", *MAP)), "Det (in y): tinyweave does not import it; 'tinyweave docs onnx' lists the ops")
    refused = model(one("Mod", *MAP, given=[np.float32(2)], fmod=1))
    check_refused(refused, "Mod (in y): it is imported only if all its inputs are constant")


def test_the_reported_reasons_come_from_the_attempt_that_imports_most_nodes() -> None:
    """If the input keeps its axis order, the convolution is refused, which hides the refusals of later nodes."""
    nodes = [("Conv", ("x", "c"), ("a",), {}), ("Det", ("a",), ("d",), {}), ("NonZero", ("a",), ("e",), {})]
    joined = ("Add", ("d", "e"), ("y",), {})
    with pytest.raises(CompileError, match="2 ops of the ONNX model") as error:
        from_onnx(model(([*nodes, joined], {"x": (1, 4, 6, 8)}, {"c": floats(5, 4, 1, 1)})), "net")
    assert "Det (in d)" in str(error.value) and "NonZero (in e)" in str(error.value) and "transpose" not in str(error.value)


def test_nodes_in_a_cycle_are_refused() -> None:
    nodes = [("Relu", ("a",), ("y",), {}), ("Add", ("x", "y"), ("a",), {})]
    check_refused(model((nodes, {"x": (1, 4)}, {})), "reads an output that depends on its own; the file may be damaged")
    check_refused(model(([("Add", ("x", "y"), ("y",), {})], {"x": (1, 4)}, {})), "node 0 (Add) reads an output that depends on")


def of_domains(opsets: dict[str, int], *nodes: Any) -> bytes:
    inputs = [helper.make_tensor_value_info("x", TensorProto.INT8, (1, 4))]
    scale, zero = onnx.numpy_helper.from_array(np.float32(0.5), "s"), onnx.numpy_helper.from_array(np.int8(3), "z")
    outputs = [helper.make_tensor_value_info("y", TensorProto.INT8, None)]
    graph = helper.make_graph(list(nodes), "case", inputs, outputs, [scale, zero])
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    return bytes(helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString())


ADD = helper.make_node("QLinearAdd", ["x", "s", "z", "x", "s", "z", "s", "z"], ["y"], domain="com.microsoft")


def test_a_file_with_only_onnx_runtime_ops_needs_no_onnx_opset() -> None:
    graph = from_onnx(of_domains({"com.microsoft": 1}, ADD), "net")
    assert [op.kind for op in graph.ops] == ["add"]
    check_refused(of_domains({"com.microsoft": 1}, ADD, helper.make_node("Relu", ["x"], ["w"])), "does not declare their opset")


def sums(kind: str, scales: Sequence[float], *, power_of_two: bool) -> bytes:
    """Return a file of an int16 add or sub with or without the flag pot_scale_int16."""
    a, b, out = (Tensor(name, (1, 64), "int16", Quant((scale,), (0,))) for name, scale in zip("abc", scales, strict=True))
    graph = single_op(kind, [a, b], out, {"activation": "none"})
    file = bytearray(to_tflite(graph))
    operator = tflite.Model.GetRootAs(file, 0).Subgraphs(0).Operators(0)
    options = (tflite.AddOptions if kind == "add" else tflite.SubOptions)()
    options.Init(operator.BuiltinOptions().Bytes, operator.BuiltinOptions().Pos)
    assert not options.PotScaleInt16()
    file[options._tab.Pos + options._tab.Offset(6)] = power_of_two
    return bytes(file)


GENERAL, OCTAVES = (0.0123, 0.002, 0.0301), (2.0**-9, 2.0**-10, 2.0**-8)


@pytest.mark.litert
@pytest.mark.parametrize("kind", ["add", "sub"])
def test_int16_sums_with_the_default_flag_are_general_unless_all_scales_are_powers_of_two(kind: str, litert: Any) -> None:
    general = tuple(float(np.float32(scale)) for scale in GENERAL)
    file = sums(kind, general, power_of_two=True)
    graph = ops.check(from_tflite(file, "sums"))
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-(1 << 15), 1 << 15, (1, 64)).astype(np.int16) for _ in range(2)]
    (ours,) = ops.run(graph, dict(zip(graph.inputs, inputs, strict=True))).values()
    assert np.array_equal(litert.run(file, [inputs])[0].outputs[0], ours)
    assert ops.check(from_tflite(sums(kind, (general[0], *OCTAVES[1:]), power_of_two=True), "one is none"))
    assert ops.check(from_tflite(sums(kind, OCTAVES, power_of_two=False), "without the flag"))
    with pytest.raises(CompileError, match="is int16, and all scales are powers of two"):
        from_tflite(sums(kind, OCTAVES, power_of_two=True), "octaves")


@pytest.mark.parametrize("alpha", [3e38, -3e38, 1e30])
def test_a_leaky_relu_slope_too_large_for_fixed_point_is_refused(alpha: float) -> None:
    x, out = (Tensor(name, (1, 4), "int8", Quant((scale,), (0,))) for name, scale in (("x", 8.0), ("y", 0.25)))
    with warnings.catch_warnings(), pytest.raises(CompileError, match="is too large for fixed point"):
        warnings.simplefilter("error")
        single_op("leaky_relu", [x], out, {"alpha": float(np.float32(alpha))})


X = Tensor("x", (1, 4), "int8", Quant((0.5,), (3,)))
FIXED = constant("c", np.arange(4, dtype=np.int8)[None], X.quant)


def network(*outputs: str) -> Graph:
    """Return a network with the given outputs of: x, a constant, and y = relu(x)."""
    relu = (Op("relu_0", "relu", ("x",), ("y",)),) if "y" in outputs else ()
    tensors = {t.name: t for t in (X, Tensor("y", X.shape, "int8", X.quant), FIXED) if t.name in ("x", *outputs)}
    return verify(Graph("net", tensors, relu, ("x",), outputs))


@pytest.mark.parametrize("outputs", [("x",), ("x", "x"), ("c",), ("c", "x")])
def test_a_network_without_an_op_is_refused_in_one_line(outputs: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(to_tflite(network(*outputs)))
    model, folder = api.load(tmp_path / "net.tflite"), tmp_path / "out"
    verbs = (
        lambda: api.plan(model),
        lambda: api.pareto(model),
        lambda: api.compare_boards(model, api.Request()),
        lambda: api.deploy_model(model, folder, api.Request()),
    )
    for verb in verbs:
        with pytest.raises(CompileError, match="the network has no ops: each output is an input or a constant"):
            verb()
    assert not folder.exists()


@pytest.mark.parametrize("outputs", [("y", "x"), ("x", "y"), ("c", "y", "c"), ("y", "x", "y")])
def test_outputs_that_are_inputs_or_constants_have_the_right_values(outputs: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(to_tflite(network(*outputs)))
    model = api.load(tmp_path / "net.tflite")
    assert api.verify_plan(model, api.plan(model), core=None).ok
