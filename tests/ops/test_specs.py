"""Properties of op specs: MACs, windows, constraints, and error messages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.draw import activation, constant, integers, single_op

from tinyweave import ops
from tinyweave.importers.tflite import from_tflite
from tinyweave.ir import CompileError, Graph, Quant, Tensor
from tinyweave.ops.window import ONE_TO_ONE, Window, Windows, same_padding

QUANT = Quant((0.5,), (0,))
NONE: dict[str, Any] = {"activation": "none"}


def tensor(name: str, *shape: int, quant: Quant | None = QUANT, dtype: str = "int8") -> Tensor:
    return Tensor(name, shape, dtype, quant)


def filters(*shape: int) -> Tensor:
    return constant("weights", np.ones(shape, np.int8), QUANT)


def conv(kind: str, x: Tensor, weights: Tensor, size: int, *, stride: int = 1, dilation: int = 1) -> Graph:
    padding = tuple(same_padding(extent, size, stride, dilation) for extent in x.shape[1:3])
    attrs = {**NONE, "stride": (stride,) * 2, "dilation": (dilation,) * 2, "padding": padding}
    return single_op(kind, [x, weights], tensor("output"), attrs)


def macs(graph: Graph, *, clipped: bool) -> int:
    return sum(ops.SPECS[op.kind].macs(graph, op, clipped) for op in graph.ops)


def test_macs_count_the_padding_unless_clipped() -> None:
    graph = conv("conv_2d", tensor("input", 1, 4, 5, 2), filters(7, 3, 3, 2), 3)
    assert macs(graph, clipped=False) == 3 * 3 * 2 * 7 * 4 * 5
    assert macs(graph, clipped=True) == (3 * 4 - 2) * (3 * 5 - 2) * 2 * 7


def test_macs_of_groups_and_of_depthwise() -> None:
    assert macs(conv("conv_2d", tensor("input", 1, 4, 4, 6), filters(9, 1, 1, 2), 1), clipped=True) == 2 * 9 * 16
    depthwise = conv("depthwise_conv_2d", tensor("input", 1, 4, 4, 6), filters(1, 3, 3, 12), 3)
    assert macs(depthwise, clipped=False) == 9 * 12 * 16
    assert macs(depthwise, clipped=True) == 10 * 10 * 12


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mlcommons__tiny__vww_96_int8", 7_489_664),
        ("mlcommons__tiny__kws_ref_model", 2_656_768),
        ("mlcommons__tiny__pretrainedResnet_quant", 12_501_632),
        ("mlcommons__tiny__ad01_int8", 264_192),
        ("mit-han-lab__tinyengine__mcunetv2_large", 216_815_264),
        ("tensorflow__tflite-micro__mobilenet_v2_quantized_1x3x224x224", 300_774_272),
    ],
)
def test_macs_of_known_networks(name: str, expected: int, shared: Path) -> None:
    assert macs(from_tflite((shared / "models" / f"{name}.tflite").read_bytes(), "network"), clipped=False) == expected


def test_window_of_a_dilated_strided_convolution() -> None:
    graph = conv("conv_2d", tensor("input", 1, 9, 9, 1), filters(1, 3, 3, 1), 3, dilation=2)
    assert ops.SPECS["conv_2d"].windows(graph, graph.ops[0]) == (Window(5, 1, 2),) * 2
    graph = conv("conv_2d", tensor("input", 1, 8, 8, 1), filters(1, 3, 3, 1), 3, stride=2)
    assert ops.SPECS["conv_2d"].windows(graph, graph.ops[0]) == (Window(3, 2),) * 2


def test_windows_of_other_kinds() -> None:
    def windows(graph: Graph) -> Windows | None:
        return ops.SPECS[graph.ops[0].kind].windows(graph, graph.ops[0])

    a, b = tensor("a", 1, 4, 4, 2), tensor("b", 1, 1, 1, 2)
    assert windows(single_op("add", [a, a], tensor("output"), NONE)) == ONE_TO_ONE
    assert windows(single_op("add", [a, b], tensor("output"), NONE)) == ONE_TO_ONE, "a pixel that repeats"
    assert windows(single_op("add", [a, tensor("c", 1, 1, 4, 2)], tensor("output"), NONE)) is None
    assert windows(single_op("add", [b, tensor("c", 1, 4, 4, 1)], tensor("output"), NONE)) is None
    for axes, found in (((2,), (Window(), Window(4, 4))), ((1,), None), ((1, 2), None), ((3,), None)):
        assert windows(single_op("mean", [a, integers("axes", *axes)], tensor("output"), {"keep_dims": True})) == found
    column, factor = tensor("a", 1, 4, 1, 6), tensor("c", 1, 4, 1, 1)
    assert windows(single_op("mean", [column, integers("axes", 3)], tensor("output"), {"keep_dims": True})) == ONE_TO_ONE
    assert windows(single_op("mul", [column, factor], tensor("output"), NONE)) == ONE_TO_ONE, "a channel that repeats"
    padded = single_op("pad", [a, integers("p", (0, 0), (1, 0), (2, 3), (0, 0))], tensor("output"), {})
    assert windows(padded) == (Window(pad=1), Window(pad=2))
    assert windows(single_op("concatenation", [a, a], tensor("output"), {**NONE, "axis": 3})) == ONE_TO_ONE
    assert windows(single_op("concatenation", [a, a], tensor("output"), {**NONE, "axis": 1})) is None


@pytest.mark.parametrize(
    ("a", "b", "turned", "by_rows"),
    [
        ((1, 4, 1, 6), (1, 1, 6, 3), (False, False), True),
        ((1, 4, 1, 6), (1, 1, 3, 6), (False, True), True),
        ((1, 4, 1, 6), (1, 4, 1, 6), (False, True), True),
        ((1, 4, 1, 1), (1, 4, 1, 6), (False, False), False),  # row r of b is a matrix of one row
        ((1, 4, 1, 6), (1, 4, 3, 6), (False, True), False),  # each row has a matrix of its own
        ((1, 4, 1, 6), (1, 1, 1, 5), (True, False), False),  # each row is a product of a column and a row
        ((1, 1, 4, 6), (1, 1, 6, 3), (False, False), False),  # one row
        ((4, 6), (6, 3), (False, False), False),
    ],
)
def test_products_by_rows(a: tuple[int, ...], b: tuple[int, ...], turned: tuple[bool, bool], by_rows: bool) -> None:
    attrs = {"adj_x": turned[0], "adj_y": turned[1]}
    graph = single_op("batch_matmul", [tensor("a", *a), tensor("b", *b)], tensor("output"), attrs)
    assert ops.SPECS["batch_matmul"].windows(graph, graph.ops[0]) == (ONE_TO_ONE if by_rows else None)


@pytest.mark.parametrize(
    ("shape", "keeps", "by_rows"), [((1, 4, 2, 6), True, True), ((1, 4, 2, 6), False, False), ((4, 6), True, False)]
)
def test_dense_layers_by_rows(shape: tuple[int, ...], keeps: bool, by_rows: bool) -> None:
    attrs = {**NONE, "keep_num_dims": keeps}
    graph = single_op("fully_connected", [tensor("x", *shape), filters(3, 6)], tensor("output"), attrs)
    assert ops.SPECS["fully_connected"].windows(graph, graph.ops[0]) == (ONE_TO_ONE if by_rows else None)


def broken(kind: str, operands: list[Tensor | None], attrs: dict[str, Any], output: Tensor | None = None) -> str:
    with pytest.raises(CompileError) as error:
        single_op(kind, operands, output or tensor("output"), attrs)
    return str(error.value)


CONV = {**NONE, "stride": (1, 1), "dilation": (1, 1), "padding": ((0, 0), (0, 0))}


@pytest.mark.parametrize(
    ("kind", "operands", "attrs", "message"),
    [
        ("conv_2d", [tensor("x", 1, 4, 4, 1), tensor("w", 1, 3, 3, 1)], CONV, "the weights must be constant"),
        ("conv_2d", [tensor("x", 1, 4, 4, 3), filters(1, 3, 3, 2)], CONV, "must be a multiple of the filter's"),
        ("conv_2d", [tensor("x", 1, 2, 4, 1), filters(1, 3, 3, 1)], CONV, "the window must fit"),
        ("conv_2d", [tensor("x", 1, 4, 4, 1, dtype="uint8"), filters(1, 3, 3, 1)], CONV, "the input must be int8"),
        (
            "conv_2d",
            [tensor("x", 1, 4, 4, 1), replace(filters(1, 3, 3, 1), quant=Quant((0.5,), (3,)))],
            CONV,
            "zero point 0 unless uint8",
        ),
        ("conv_2d", [tensor("x", 1, 4, 4, 1), filters(1, 3, 3, 1)], {**CONV, "activation": "tanh"}, "fused activation must be"),
        ("depthwise_conv_2d", [tensor("x", 1, 4, 4, 2), filters(1, 3, 3, 3)], CONV, "a multiple of the input channels"),
        ("mean", [tensor("x", 4, 5), integers("axes", 2)], {"keep_dims": False}, "must be within the input's rank"),
        (
            "concatenation",
            [tensor("a", 1, 2), tensor("b", 1, 2, quant=Quant((0.25,), (0,)))],
            {**NONE, "axis": 1},
            "must have the same scale and zero point",
        ),
        ("logistic", [tensor("x", 1, 2)], {}, "must be 1/256"),
        (
            "squared_difference",
            [tensor("a", 1, 2), tensor("b", 1, 2, quant=Quant((45.26,), (0,)))],
            {},
            "more than 2^-12 times the square",
        ),
        ("rsqrt", [tensor("x", 1, 2)], {}, "negative numbers have no square root"),
        ("rsqrt", [tensor("x", 1, 2, quant=Quant((2.0**28,), (-128,)))], {}, "must be at most 2^12"),
    ],
)
def test_ops_that_break_a_constraint_are_refused(
    kind: str, operands: list[Tensor | None], attrs: dict[str, Any], message: str
) -> None:
    assert message in broken(kind, operands, attrs)


DENSE = {**NONE, "keep_num_dims": False}


X, BOOLS = tensor("x", 1, 4), Tensor("condition", (1, 4), "bool")
WIDE = Tensor("x", (1, 4), "int16", Quant((0.5,), (0,)))


def test_what_ops_on_int16_refuse() -> None:
    assert "the slope must be int8" in broken("prelu", [WIDE, replace(WIDE, name="slope")], {}, replace(WIDE, name="output"))
    operands, attrs = [replace(WIDE, shape=(4, 4)), replace(WIDE, name="y", shape=(4, 4))], {"adj_x": False, "adj_y": False}
    out = replace(WIDE, name="output", shape=(), quant=Quant((0.25 / 128,), (0,)))
    assert "must be below 2^7" in broken("batch_matmul", operands, attrs, out)


@pytest.mark.parametrize(
    ("kind", "operands", "dtype", "message"),
    [
        ("less", [X, tensor("y", 1, 4)], "int8", "the output must be bool"),
        ("less", [X, tensor("y", 1, 4, quant=Quant((1.0,), (0,)))], "bool", "both scales must be below 1"),
        ("less", [WIDE, replace(WIDE, name="y", quant=Quant((0.25,), (0,)))], "bool", "int16 inputs must share one"),
        ("logical_and", [BOOLS, X], "bool", "the input must be bool"),
        ("logical_not", [X], "bool", "the input must be bool"),
        ("select_v2", [X, X, X], "int8", "the input must be bool"),
        ("select_v2", [BOOLS, X, tensor("y", 1, 4, quant=Quant((0.125,), (0,)))], "int8", "both values and the output must"),
        ("select_v2", [BOOLS, X, tensor("y", 1, 1, 1, 1, 4)], "int8", "with at most four axes"),
    ],
)
def test_what_ops_on_bools_refuse(kind: str, operands: list[Tensor | None], dtype: str, message: str) -> None:
    output = Tensor("output", (), dtype, QUANT if dtype == "int8" else None)
    assert message in broken(kind, operands, {}, output)


@pytest.mark.parametrize(
    ("kind", "operands", "attrs", "message"),
    [
        ("conv_2d", [tensor("x", 1, 4, 4, 2, dtype="int4"), filters(1, 3, 3, 2)], CONV, "the input must be int8"),
        ("reshape", [tensor("x", 2, 3, dtype="int4")], {"new_shape": (3, 2)}, "'x': is int4, which this op does not support"),
        (
            "concatenation",
            [tensor("x", 1, 2, dtype="int4")],
            {**NONE, "axis": 1},
            "'x': is int4, which this op does not support",
        ),
    ],
)
def test_int4_ops_that_break_a_constraint_are_refused(
    kind: str, operands: list[Tensor | None], attrs: dict[str, Any], message: str
) -> None:
    assert message in broken(kind, operands, attrs, tensor("output", dtype="int4"))


LARGE = Quant((2.0**31,), (0,))


@pytest.mark.parametrize(
    ("kind", "operands", "attrs"),
    [
        ("conv_2d", [tensor("x", 1, 4, 4, 1), replace(filters(1, 3, 3, 1), quant=Quant((2.0**40,), (0,)))], CONV),
        ("mul", [tensor("x", 1, 2, quant=LARGE), tensor("y", 1, 2)], NONE),
        ("relu", [tensor("x", 1, 2, quant=LARGE)], {}),
        ("leaky_relu", [tensor("x", 1, 2)], {"alpha": -(2.0**31)}),
        ("prelu", [tensor("x", 1, 2), tensor("alpha", 2, quant=Quant((2.0**32,), (0,)))], {}),
        ("quantize", [tensor("x", 1, 2, quant=LARGE)], {}),
        ("batch_matmul", [tensor("x", 2, 2, quant=LARGE), tensor("y", 2, 2)], {"adj_x": False, "adj_y": False}),
        ("mean", [tensor("x", 4, 5, quant=LARGE), integers("axes", 1)], {"keep_dims": False}),
    ],
)
def test_an_op_whose_scale_is_too_large_is_named(kind: str, operands: list[Tensor | None], attrs: dict[str, Any]) -> None:
    text = broken(kind, operands, attrs)
    assert text.startswith(f"op {kind}_0 ({kind}): a scale of ") and "is too large for fixed point" in text, text


def test_an_unknown_kind_and_a_wrong_shape_are_refused() -> None:
    graph = single_op("relu", [tensor("input", 1, 4)], tensor("output"), {})
    with pytest.raises(CompileError, match=r"op relu_0 \(cumsum\): cumsum is not supported; supported kinds: abs, acos"):
        ops.check(replace(graph, ops=(replace(graph.ops[0], kind="cumsum"),)))
    wrong = {**graph.tensors, "output": tensor("output", 4, 1)}
    with pytest.raises(CompileError, match=r"has the shape \(4, 1\), its op computes \(1, 4\)"):
        ops.check(replace(graph, tensors=wrong))


def test_run_refuses_inputs_of_other_types_and_missing_inputs() -> None:
    graph = single_op("relu", [tensor("input", 1, 4)], tensor("output"), {})
    with pytest.raises(CompileError, match=r"must be int8\[1, 4\], not float32\[1, 4\]"):
        ops.run(graph, {"input": np.zeros((1, 4), np.float32)})
    with pytest.raises(CompileError, match="not nothing"):
        ops.run(graph, {})


def test_quantized_floats_out_of_range_saturate() -> None:
    x, out = Tensor("input", (4,), "float32"), activation("output", (), np.random.default_rng(0), quant=QUANT)
    graph = single_op("quantize", [x], out, {})
    values = np.array([np.inf, -np.inf, np.nan, 1e38], np.float32)
    assert ops.run(graph, {"input": values})["output"].tolist() == [127, -128, -128, 127]
