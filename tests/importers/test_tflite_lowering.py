"""Ops of a .tflite file that become ops of other kinds: the C has the bytes of LiteRT's reference kernels on the file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyweave as tw
from tests.cases.draw import constant, integers, single_op
from tests.cases.ops import cases
from tests.fuzz.lowered import graph_of
from tinyweave import api, tflite_schema
from tinyweave.exporters.tflite import to_tflite
from tinyweave.importers.tflite import from_tflite
from tinyweave.importers.tflite_lowering import FORMS, LOWERED
from tinyweave.ir import CompileError, Graph, Op, Quant, Tensor, verify
from tinyweave.ops import SPECS, check, run
from tinyweave.ops.constraints import has_narrow_bias
from tinyweave.ops.spec import ACTIVATIONS

Q, NARROW, WIDE = Quant((0.5,), (3,)), Quant((0.03125,), (0,)), Quant((2.0,), (-5,))
RNG = np.random.default_rng(0)
TABLE = constant("table", RNG.integers(-128, 128, (20, 6), np.int8), Q)


def token(shape: tuple[int, ...], dtype: str = "int32") -> Tensor:
    return Tensor("tokens", shape, dtype)


def dense(bias: Tensor | None, activation: str) -> tuple[str, list[Tensor | None], Tensor, dict[str, Any]]:
    operands = [Tensor("x", (2, 3, 10), "int8", Q), Tensor("weights", (6, 10), "int8", NARROW), bias]
    out = Tensor("out", (2, 3, 6), "int8", WIDE)
    return "fully_connected", operands, out, {"activation": activation, "keep_num_dims": True}


def gathered(table: Tensor, axis: int, tokens: Tensor, shape: tuple[int, ...]) -> Any:
    return "gather", [table, tokens], Tensor("out", shape, "int8", table.quant), {"axis": axis, "batch_dims": 0}


def wide(name: str, shape: tuple[int, ...], scale: float) -> Tensor:
    return Tensor(name, shape, "int16", Quant((scale,), (0,)))


def depthwise(biased: bool, padding: Any, **attrs: Any) -> Any:
    weights = constant("weights", RNG.integers(-127, 128, (1, 3, 3, 8), np.int8), Quant((0.5, 0.25) * 4, (0,) * 8, 3))
    bias = constant("bias", RNG.integers(-(10**6), 10**6, 8), Quant((2.0**-8, 2.0**-9) * 4, (0,) * 8, 0))
    operands = [wide("x", (1, 7, 6, 4), 2.0**-7), weights, *[bias] * biased]
    sizes = {"stride": (1, 1), "dilation": (1, 1), "padding": padding, "activation": "none"} | attrs
    return "depthwise_conv_2d", operands, wide("out", (1, 7, 6, 8) if padding[0][0] else (1, 3, 2, 8), 0.75), sizes


def joined(first: Quant, second: Quant, out: Quant, activation: str, dtype: str = "int8") -> Any:
    operands = [Tensor("a", (1, 4, 4, 3), dtype, first), Tensor("b", (1, 4, 4, 5), dtype, second)]
    return "concatenation", operands, Tensor("out", (1, 4, 4, 8), dtype, out), {"axis": 3, "activation": activation}


def turned(shape: tuple[int, ...], sequence: int, batch: int, lengths: list[int], dtype: str = "int16") -> Any:
    quant = Quant((0.5,), (0,)) if dtype == "int16" else None
    operands = [Tensor("x", shape, dtype, quant), constant("lengths", np.array(lengths, np.int64 if batch else np.int32))]
    return "reverse_sequence", operands, Tensor("out", shape, dtype, quant), {"seq_dim": sequence, "batch_dim": batch}


def hot(tokens: tuple[int, ...], shape: tuple[int, ...], dtype: str, indices: str = "int32") -> Any:
    quant = Q if dtype == "int8" else None
    values = [constant(name, np.array(value, dtype), quant) for name, value in (("on", 100), ("off", -3))]
    operands = [token(tokens, indices), constant("depth", np.array(9, np.int32)), *values]
    return "one_hot", operands, Tensor("out", shape, dtype, quant), {"axis": -1}


IMAGE = Tensor("x", (1, 5, 6, 4), "int8", Q)
CASES: dict[str, tuple[str, list[Tensor | None], Tensor, dict[str, Any]]] = {
    "tokens": gathered(TABLE, 0, token((1, 7)), (1, 7, 6)),
    "one token": gathered(TABLE, -2, token(()), (6,)),
    "int64 tokens": gathered(TABLE, 0, token((3, 2), "int64"), (3, 2, 6)),
    "tokens of a later axis": gathered(
        constant("table", RNG.integers(-128, 128, (1, 9, 4), np.int8), Q), 1, token((5,)), (1, 5, 4)
    ),
    "lookup": ("embedding_lookup", [token((7,)), TABLE], Tensor("out", (7, 6), "int8", Q), {}),
    "one hot": hot((5,), (5, 9), "int8"),
    "one hot of int64": hot((2, 3), (2, 3, 9), "int8", indices="int64"),
    "one hot in float": hot((4,), (4, 9), "float32"),
    "rows reversed": ("reverse_v2", [IMAGE, integers("axes", 1)], Tensor("out", (1, 5, 6, 4), "int8", Q), {}),
    "rows and columns reversed": ("reverse_v2", [IMAGE, integers("axes", 1, -2)], Tensor("out", (1, 5, 6, 4), "int8", Q), {}),
    "sequences reversed": turned((4, 8), 1, 0, [7, 2, 3, 5], "int32"),
    "sequences before the batch": turned((2, 5, 3, 4), 1, 3, [5, 0, 1, 4]),
    "sequences beside the batch": turned((3, 6, 2), 1, 0, [6, 1, 3]),
    "relu from 0 to 1": (
        "relu_0_to_1",
        [Tensor("x", (1, 5, 6, 4), "int8", NARROW)],
        Tensor("out", (1, 5, 6, 4), "int8", Quant((0.0078125,), (-20,))),
        {},
    ),
    "computed weights": dense(None, "none"),
    "computed weights, no bias": dense(constant("bias", np.zeros(6, np.int32)), "relu"),
    "computed weights, clamped": dense(None, "relu_n1_to_1"),
    "computed weights, sums just below halves": (  # rounded twice, about four of the outputs would differ
        "fully_connected",
        [Tensor("x", (40, 16), "int8", Q), Tensor("weights", (24, 16), "int8", NARROW), None],
        Tensor("out", (40, 24), "int8", Quant((float(np.float32(3.97)),), (-5,))),
        {"activation": "none", "keep_num_dims": False},
    ),
    "depthwise on int16": depthwise(True, ((1, 1), (1, 1))),
    "depthwise on int16, stride 2": depthwise(True, ((0, 0), (0, 0)), stride=(2, 2), activation="relu6"),
    "depthwise on int16, no bias": depthwise(False, ((1, 1), (1, 1))),
}


def file_of(kind: str, operands: list[Tensor | None], out: Tensor, attrs: dict[str, Any]) -> bytes:
    return to_tflite(graph_of(kind, operands, out, attrs))


def same_as_litert(file: bytes, path: Path) -> api.Model:
    path.write_bytes(file)
    model = tw.load(path)
    result = api.verify_plan(model, tw.plan(model), api.ProofOptions(count=6), core=None)
    assert result.ok and result.reference.startswith("LiteRT's reference kernels"), result
    return model


@pytest.mark.litert
@pytest.mark.parametrize("name", CASES)
def test_lowered_ops_give_the_bytes_of_litert(name: str, tmp_path: Path) -> None:
    kind = CASES[name][0]
    model = same_as_litert(file_of(*CASES[name]), tmp_path / "net.tflite")
    assert kind not in {op.kind for op in model.original.ops}


def real_values(array: np.ndarray, quant: Quant) -> np.ndarray:
    return (array.astype(np.float64) - quant.zero_point[0]) * quant.scale[0]


# LiteRT refuses a fused activation, operands of different scales, and cumsum on int8
@pytest.mark.parametrize(("first", "second", "out"), [(Q, Q, Q), (Q, WIDE, WIDE), (NARROW, Q, Q)])
@pytest.mark.parametrize("activation", ["none", "relu", "relu6"])
def test_concatenation_requantises_and_clamps(first: Quant, second: Quant, out: Quant, activation: str) -> None:
    graph = check(from_tflite(file_of(*joined(first, second, out, activation)), "net"))
    arrays = {name: RNG.integers(-128, 128, graph.tensors[name].shape, np.int8) for name in graph.inputs}
    parts = [real_values(arrays[name], quant) for name, quant in zip("ab", (first, second), strict=True)]
    low, high = (real_values(np.array(end), out) for end in (-128, 127))
    clamped = np.clip(np.concatenate(parts, axis=3), *ACTIVATIONS[activation]).clip(low, high)
    computed = real_values(run(graph, arrays)["out"], out)
    assert np.abs(computed - clamped).max() <= out.scale[0] * 0.75  # quantize rounds twice


BYTES = [Quant((float(np.float32(scale)),), (zero,)) for scale, zero in ((0.031, 128), (0.0077, 3), (0.25, 250), (0.031, 127))]


@pytest.mark.litert
@pytest.mark.parametrize("number", range(4))
def test_concatenation_on_uint8_rescales_as_litert_does(number: int, tmp_path: Path) -> None:
    first, second, out = BYTES[number], BYTES[(number + 1) % 4], BYTES[(number + number // 2) % 4]
    kind, (a, b), made, attrs = joined(first, second, out, "none", "uint8")
    fixed = constant("c", RNG.integers(0, 256, (1, 4, 4, 2), np.uint8), second)
    same_as_litert(file_of(kind, [a, b, fixed], replace(made, shape=(1, 4, 4, 10)), attrs), tmp_path / "net.tflite")


@pytest.mark.litert
def test_outputs_of_rewritten_networks_are_compared_without_their_conversion(tmp_path: Path) -> None:
    """A rewritten op may become several ops, so LiteRT's tensors are found by name."""
    graph = graph_of(*CASES["tokens"])
    real = replace(graph.tensors["out"], name="real", dtype="float32", quant=None)
    op = Op("last", "dequantize", ("out",), ("real",))
    whole = replace(graph, tensors=graph.tensors | {"real": real}, ops=(*graph.ops, op), outputs=("real",))
    (tmp_path / "net.tflite").write_bytes(to_tflite(verify(whole)))
    model = tw.load(tmp_path / "net.tflite", io="int8")
    assert model.graph.tensors[model.graph.outputs[0]].dtype == "int8"
    result = api.verify_plan(model, tw.plan(model), api.ProofOptions(count=4), core=None)
    assert result.ok and result.reference.startswith("LiteRT's reference kernels"), result


def test_logistic_of_any_scale_is_requantised() -> None:
    given, out = (Quant((float(np.float32(scale)),), (zero,)) for scale, zero in ((0.04, 17), (0.005, -128)))
    x = Tensor("x", (1, 256), "int8", given)
    graph = check(from_tflite(file_of("logistic", [x], Tensor("out", x.shape, "int8", out), {}), "net"))
    values = np.arange(-128, 128, dtype=np.int8)[None]
    expected = 1 / (1 + np.exp(-real_values(values, given)))
    computed = real_values(run(graph, {"x": values})["out"], out)
    assert np.abs(computed - expected).max() <= 0.005 * 0.75 + 1 / 512 and len(set(computed.ravel())) > 100


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize(("exclusive", "reverse"), [(False, False), (True, False), (False, True), (True, True)])
def test_cumsum_on_int8_adds_up(axis: int, exclusive: bool, reverse: bool) -> None:
    x, out = Tensor("x", (3, 5, 4), "int8", NARROW), Tensor("out", (3, 5, 4), "int8", Quant((0.25,), (7,)))
    operands = [x, constant("axis", np.array(axis, np.int32))]
    graph = check(from_tflite(file_of("cumsum", operands, out, {"exclusive": exclusive, "reverse": reverse}), "net"))
    values = RNG.integers(-128, 128, x.shape, np.int8)
    real = real_values(values, NARROW)
    turned = np.flip(real, axis) if reverse else real
    sums = turned.cumsum(axis) - (turned if exclusive else 0)
    expected = np.flip(sums, axis) if reverse else sums
    computed = real_values(run(graph, {"x": values})["out"], Quant((0.25,), (7,)))
    assert np.abs(expected).max() < 30 and np.abs(computed - expected).max() <= 0.125


def test_lowered_kinds_are_no_kinds_of_a_graph() -> None:
    assert not LOWERED.keys() & SPECS and FORMS.keys() <= SPECS.keys()


def test_computed_weights_with_a_bias_are_refused() -> None:
    graph = from_tflite(file_of(*dense(constant("bias", np.arange(6, dtype=np.int32)), "none")), "net")
    with pytest.raises(CompileError, match="the weights must be constant"):
        check(graph)


@pytest.mark.parametrize("axis", [4, -5])
def test_a_reversed_axis_that_does_not_exist_is_refused(axis: int) -> None:
    file = file_of("reverse_v2", [IMAGE, integers("axes", axis)], Tensor("out", IMAGE.shape, "int8", Q), {})
    with pytest.raises(CompileError, match="reverse_v2"):
        check(from_tflite(file, "net"))


@pytest.mark.litert
@pytest.mark.parametrize(("kind", "value"), [("zeros_like", 0), ("fill", 7)])
def test_constant_tensors_are_computed_at_import(kind: str, value: int, tmp_path: Path) -> None:
    """The constant is added to the position at which a map is cut."""
    like = constant("like", np.ones(2, np.int32))
    operands = {"zeros_like": ("like",), "fill": ("two", "value")}[kind]
    tensors = [like, integers("two", 2), constant("value", np.int32(value)), Tensor("filled", (2,), "int32")]
    tensors += [integers("first", 0, 1), Tensor("begin", (2,), "int32"), integers("size", 1, 2)]
    tensors += [Tensor("x", (9, 12), "int8", Q), Tensor("out", (1, 2), "int8", Q)]
    ops = (
        Op("filled", kind, operands, ("filled",)),
        Op("begin", "add", ("filled", "first"), ("begin",), {"activation": "none"}),
        Op("cut", "slice", ("x", "begin", "size"), ("out",)),
    )
    file = to_tflite(verify(Graph("net", {t.name: t for t in tensors}, ops, ("x",), ("out",))))
    model = same_as_litert(file, tmp_path / "net.tflite")
    (op,) = model.graph.ops
    begin = model.graph.input(op, 1).data
    assert op.kind == "slice" and begin is not None and begin.tolist() == [value, value + 1]


def unet_tail(extents: tuple[int, ...] = (8, 8)) -> Graph:
    """A transpose_conv as Keras exports it: its output shape is computed from the shape of its input."""
    indices = {"zero": 0, "one": 1, "two": 2, "three": 3}
    tensors = [integers(name, value) for name, value in indices.items()]
    tensors += [constant("stride", np.int32(2)), constant("channels", np.int32(6))]
    tensors += [constant("weights", RNG.integers(-127, 128, (6, 3, 3, 8), np.int8), NARROW)]
    tensors += [Tensor("x", (1, 4, 4, 8), "int8", Q), Tensor("out", (1, *extents, 6), "int8", WIDE)]
    tensors += [Tensor("shape", (4,), "int32"), Tensor("wanted", (4,), "int32")]
    tensors += [Tensor(name, (), "int32") for name in ("n", "h", "w", "rows", "cols")]
    cut = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask"), 0) | {
        "shrink_axis_mask": 1,
        "offset": False,
    }
    ops = [Op("shape", "shape", ("x",), ("shape",))]
    for out, begin, end in (("n", "zero", "one"), ("h", "one", "two"), ("w", "two", "three")):
        ops.append(Op(out, "strided_slice", ("shape", begin, end, "one"), (out,), cut))
    ops += [Op(out, "mul", (of, "stride"), (out,), {"activation": "none"}) for out, of in (("rows", "h"), ("cols", "w"))]
    ops.append(Op("wanted", "pack", ("n", "rows", "cols", "channels"), ("wanted",), {"axis": 0}))
    attrs = {"stride": (2, 2), "padding": ((0, 1), (0, 1)), "activation": "none"}
    ops.append(Op("grown", "transpose_conv", ("wanted", "weights", "x"), ("out",), attrs))
    return verify(Graph("net", {t.name: t for t in tensors}, tuple(ops), ("x",), ("out",)))


@pytest.mark.litert
def test_a_transposed_convolution_of_keras_has_the_bytes_of_litert(tmp_path: Path) -> None:
    model = same_as_litert(to_tflite(unet_tail()), tmp_path / "net.tflite")
    assert [op.kind for op in model.graph.ops] == ["transpose_conv"]


def test_an_output_that_contradicts_its_computed_shape_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(to_tflite(unet_tail((8, 6))))
    with pytest.raises(CompileError, match=r"has the shape \(1, 8, 6, 6\), its op computes \(1, 8, 8, 6\)"):
        tw.load(path)


@pytest.mark.litert
@pytest.mark.parametrize("kind", ["add", "mul", "maximum"])
@pytest.mark.parametrize(
    ("a", "b"),
    [((2, 1, 1, 4, 1, 3), (1, 2, 3, 1, 5, 3)), ((2, 1, 3, 1, 2, 1), (1, 2, 1, 2, 1, 3)), ((2, 1, 3, 1, 2), (1, 2, 1, 2, 1))],
)
def test_operands_that_broadcast_along_many_axes_are_repeated(
    kind: str, a: tuple[int, ...], b: tuple[int, ...], tmp_path: Path
) -> None:
    quants = (Q, Q, Q) if kind == "maximum" else (Q, NARROW, WIDE)
    shapes = (a, b, np.broadcast_shapes(a, b))
    operands = [Tensor(name, shape, "int8", quant) for name, shape, quant in zip("abo", shapes, quants, strict=True)]
    attrs = {} if kind == "maximum" else {"activation": "none"}
    model = same_as_litert(file_of(kind, operands[:2], operands[2], attrs), tmp_path / "net.tflite")
    assert [op.kind for op in model.graph.ops][-1] == kind and len(model.graph.ops) > 1


NARROW_KINDS = ("conv_2d", "transpose_conv")  # a layer on int16 may have an int32 bias if its options say so


@pytest.mark.parametrize("kind", NARROW_KINDS)
def test_a_narrow_bias_that_the_options_do_not_name_is_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = next(case.graph for case in cases(kind) if has_narrow_bias(case.graph, case.graph.ops[0]))
    assert from_tflite(to_tflite(narrow), "network").ops[0].kind == kind
    row = tflite_schema.OPS[kind]
    silent = replace(tflite_schema.BIAS_TYPE, write=lambda graph, op: {})
    fields = tuple(silent if field is tflite_schema.BIAS_TYPE else field for field in row.fields)
    monkeypatch.setitem(tflite_schema.OPS, kind, replace(row, fields=fields))
    with pytest.raises(CompileError, match="TFLite reads the bias as int64"):
        from_tflite(to_tflite(narrow), "network")


@pytest.mark.parametrize(("dtype", "kind"), [("int64", "conv_2d"), ("int32", "depthwise_conv_2d")])
def test_a_depthwise_layer_on_int16_becomes_a_convolution_if_its_bias_is_int64(dtype: str, kind: str) -> None:
    x, wide = Tensor("x", (1, 5, 5, 3), "int16", Quant((2.0**-7,), (0,))), Quant((2.0**-14,), (0,))
    weights = constant("w", np.ones((1, 3, 3, 3), np.int8), Quant((2.0**-7,), (0,)))
    attrs = {"stride": (1, 1), "dilation": (1, 1), "padding": ((0, 0), (0, 0)), "activation": "none"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.cases.draw.check", lambda graph: graph)  # the kind has no form on int16
        bias = constant("b", np.ones(3, dtype), wide)
        graph = single_op("depthwise_conv_2d", [x, weights, bias], Tensor("y", (), "int16", Quant((0.125,), (0,))), attrs)
    loaded = from_tflite(to_tflite(graph), "network")
    assert [op.kind for op in loaded.ops] == [kind]
    if dtype == "int32":
        with pytest.raises(CompileError, match="on int16, the bias must be int64: LiteRT's depthwise kernel reads"):
            check(loaded)
