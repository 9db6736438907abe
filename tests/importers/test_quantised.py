"""Models quantised by other tools become int8 graphs that equal LiteRT and are close to the tool's outputs."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install '.[onnx]'")

from fuzz.steps import last, steps_apart  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from tinyweave import ops  # noqa: E402
from tinyweave.exporters.tflite import to_tflite  # noqa: E402
from tinyweave.importers.onnx import from_onnx  # noqa: E402
from tinyweave.ir import CompileError, Graph, Quant, Tensor, verify  # noqa: E402
from tinyweave.ir import Op as GraphOp  # noqa: E402
from tinyweave.quantize.prequantised import from_prequantised  # noqa: E402

RNG = np.random.default_rng(0)
C = 4
MICROSOFT = "com.microsoft"
Op = tuple[str, list[str], str, dict[str, Any]]


def f32(value: float) -> np.ndarray:
    return np.array(value, np.float32)


SCALES = {  # scales and zero points by name, int8 and uint8
    "xs": f32(0.05), "xz": np.int8(-3), "ys": f32(0.2), "yz": np.int8(5), "ux": np.uint8(125), "uy": np.uint8(133),
    "ws": (RNG.uniform(0.5, 1, C) / 40).astype(np.float32), "wz": np.zeros(C, np.int8),
    "w": RNG.integers(-127, 128, (C, C, 3, 3)).astype(np.int8),
    "b": RNG.integers(-900, 900, C).astype(np.int32), "bz": np.zeros(C, np.int32),
    "m": RNG.integers(-127, 128, (C, C)).astype(np.int8), "ms": f32(0.01), "mz": np.int8(0), "h": np.int16(0),
}  # fmt: skip
SCALES["bs"] = SCALES["xs"] * SCALES["ws"]
SCALES["asymmetric"] = np.int8(9)
SCALES["uw"], SCALES["uz"] = (SCALES["w"].astype(np.int16) + 128).astype(np.uint8), np.uint8(128)


def model(nodes: list[Op], shape: tuple[int, ...] = (1, C, 7, 6), edges: tuple[int, int] = (1, 1), output: str = "y") -> bytes:
    """Return an ONNX file of nodes (op, inputs, output, attributes) on an input "x"; `edges`: input and output type."""
    made = [
        helper.make_node(op, given, [out], domain=MICROSOFT if op in OF_MICROSOFT else "", **attributes)
        for op, given, out, attributes in nodes
    ]
    used = {name for _, given, _, _ in nodes for name in given}
    graph = helper.make_graph(
        made,
        "case",
        [helper.make_tensor_value_info("x", edges[0], shape)],
        [helper.make_tensor_value_info(output, edges[1], None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in SCALES.items() if name in used],
    )
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid(MICROSOFT, 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


OF_MICROSOFT = (
    "QLinearAdd",
    "QLinearMul",
    "QLinearSigmoid",
    "QLinearConcat",
    "QLinearGlobalAveragePool",
    "QLinearReduceMean",
    "QGemm",
)


def pair(name: str, out: str, scale: str = "xs", zero: str = "xz") -> list[Op]:
    """Return a QuantizeLinear and a DequantizeLinear node."""
    return [("QuantizeLinear", [name, scale, zero], f"{out}.q", {}), ("DequantizeLinear", [f"{out}.q", scale, zero], out, {})]


WEIGHTS: list[Op] = [
    ("DequantizeLinear", ["w", "ws", "wz"], "w.real", {"axis": 0}),
    ("DequantizeLinear", ["b", "bs", "bz"], "b.real", {"axis": 0}),
]
CONV = {"pads": [1, 1, 1, 1]}
QDQ: dict[str, list[Op]] = {
    "conv": [*WEIGHTS, *pair("x", "a"), ("Conv", ["a", "w.real", "b.real"], "c", CONV), *pair("c", "y", "ys", "yz")],
    "conv-uint8": [
        *WEIGHTS, *pair("x", "a", "xs", "ux"), ("Conv", ["a", "w.real", "b.real"], "c", CONV), *pair("c", "y", "ys", "uy"),
    ],
    "conv-relu": [
        *WEIGHTS, *pair("x", "a"), ("Conv", ["a", "w.real"], "c", CONV), ("Relu", ["c"], "r", {}), *pair("r", "y", "ys", "yz"),
    ],
    "conv-rounded-relu": [
        *WEIGHTS, *pair("x", "a"), ("Conv", ["a", "w.real"], "c", CONV), *pair("c", "d", "ys", "yz"),
        ("Relu", ["d"], "r", {}), *pair("r", "y", "ys", "yz"),
    ],
    "conv-uint8-weights": [
        ("DequantizeLinear", ["uw", "ms", "uz"], "w.real", {}), *pair("x", "a", "xs", "ux"),
        ("Conv", ["a", "w.real"], "c", CONV), *pair("c", "y", "ys", "uy"),
    ],
    "add": [*pair("x", "a"), ("Add", ["a", "a"], "c", {}), *pair("c", "y", "ys", "yz")],
    "max-pool": [*pair("x", "a"), ("MaxPool", ["a"], "c", {"kernel_shape": [2, 2]}), *pair("c", "y")],
    "average-pool-of-another-scale": [
        *pair("x", "a"), ("AveragePool", ["a"], "c", {"kernel_shape": [2, 2]}), *pair("c", "y", "ys", "yz"),
    ],
    "concat-of-other-scales": [
        *pair("x", "a"), *pair("x", "e", "ys", "yz"), ("Concat", ["a", "e"], "c", {"axis": 1}), *pair("c", "y", "ys", "yz"),
    ],
    "hard-swish": [*pair("x", "a"), ("HardSwish", ["a"], "c", {}), *pair("c", "y")],
    "a-constant-beyond-the-scale": [*pair("x", "a"), ("Max", ["a", "far"], "c", {}), *pair("c", "y", "ys", "yz")],
    "an-inner-scale-is-missing": [
        *WEIGHTS, *pair("x", "a"), ("Conv", ["a", "w.real"], "c", CONV), ("Clip", ["c", "zero", "six"], "d", {}),
        ("GlobalAveragePool", ["d"], "e", {}), *pair("e", "y", "ys", "yz"),
    ],
}  # fmt: skip
QDQ["norm-of-quantised-factors"] = [
    *pair("x", "a"), ("DequantizeLinear", ["factor", "ms", "mz"], "f.real", {}),
    ("BatchNormalization", ["a", "f.real", "shift", "middle", "spread"], "c", {}), *pair("c", "y", "ys", "yz"),
]  # fmt: skip
QDQ["conv-of-a-quantised-bias-only"] = [
    *WEIGHTS[1:], *pair("x", "a"), ("Conv", ["a", "filters", "b.real"], "c", CONV), ("Mul", ["c", "factors"], "d", {}),
    *pair("d", "y", "ys", "yz"),
]  # fmt: skip
for unsigned, zero, value in ((False, "xz", "step"), (True, "ux", "ustep"), (False, "xz", "rounded")):
    QDQ[f"pad-of-{'un' * unsigned}signed-integers-by-{value}"] = [
        ("QuantizeLinear", ["fill", "xs", zero], "rounded", {}),
        ("QuantizeLinear", ["x", "xs", zero], "q", {}),
        ("Pad", ["q", "around", value], "p", {}),
        ("DequantizeLinear", ["p", "xs", zero], "y", {}),
    ]
SCALES |= {"around": np.array([0, 0, 1, 2, 0, 0, 1, 0]), "step": np.int8(40), "ustep": np.uint8(168), "fill": f32(2.0)}
SCALES |= {"far": np.linspace(-15, 15, C, dtype=np.float32).reshape(1, C, 1, 1), "factors": f32(1.5).reshape(1, 1, 1)}
SCALES |= {"filters": RNG.uniform(-1, 1, (C, C, 3, 3)).astype(np.float32) / 9}
SCALES |= {"scores": np.array([-128, -101, 0, 127], np.int8).reshape(C, 1, 1)}
SCALES |= {"xf": f32(-3), "zero": f32(0), "six": f32(6), "factor": RNG.integers(60, 120, C).astype(np.int8)}
SCALES |= {name: RNG.uniform(0.5, 1, C).astype(np.float32) for name in ("shift", "middle", "spread")}
X, W, Y = ["xs", "xz"], ["w", "ws", "wz"], ["ys", "yz"]
QOPERATOR: dict[str, list[Op]] = {
    "conv": [("QLinearConv", ["x", *X, *W, *Y, "b"], "y", CONV)],
    "conv-of-computed-scales": [
        ("Mul", ["xs", "six"], "six xs", {}), ("Div", ["six xs", "six"], "x step", {}), ("Cast", ["xf"], "x zero", {"to": 3}),
        ("Sqrt", ["ws"], "root", {}), ("Mul", ["root", "root"], "w steps", {}), ("Clip", ["ys", "zero", "six"], "y step", {}),
        ("QLinearConv", ["x", "x step", "x zero", "w", "w steps", "wz", "y step", "yz", "b"], "y", CONV),
    ],
    "product": [("QLinearMatMul", ["x", *X, "m", "ms", "mz", *Y], "y", {})],
}  # fmt: skip
BY_HAND: dict[str, tuple[list[Op], Any]] = {  # ops that ONNX's reference lacks, and what they compute in floats
    "add": ([("QLinearAdd", ["x", *X, "x", *X, *Y], "y", {})], lambda x: x + x),
    "mul": ([("QLinearMul", ["x", *X, "x", *X, *Y], "y", {})], lambda x: x * x),
    "mean": ([("QLinearGlobalAveragePool", ["x", *X, *Y], "y", {})], lambda x: x.mean((2, 3), keepdims=True)),
    "concat": ([("QLinearConcat", [*Y, "x", *X, "x", *X], "y", {"axis": 1})], lambda x: np.concatenate([x, x], 1)),
    "reduce-mean": ([("QLinearReduceMean", ["x", *X, *Y], "y", {"axes": [1]})], lambda x: x.mean(1, keepdims=True)),
    "gemm": (
        [("QGemm", ["x", *X, "m", "ms", "mz", "b", *Y], "y", {"transB": 1})],
        lambda x: x @ (SCALES["m"] * SCALES["ms"]).T + SCALES["b"] * SCALES["xs"] * SCALES["ms"],
    ),
}


def gives_litert_bytes(graph: Graph, litert: ModuleType) -> bool:
    source = graph.tensors[graph.inputs[0]]
    x = RNG.integers(-128, 128, source.shape).astype(np.int8)
    ours = ops.run(graph, {source.name: x})
    theirs = litert.run(to_tflite(graph), [[x]])[0].outputs
    return all(a.tobytes() == b.tobytes() for a, b in zip(ours.values(), theirs, strict=True))


@pytest.mark.litert
@pytest.mark.parametrize("name", QDQ)
def test_qdq_pairs_around_ops_give_litert_bytes(name: str, litert: ModuleType) -> None:
    data = model(QDQ[name])
    graph = from_onnx(data, name)
    wide = 1 if name == "concat-of-other-scales" else 6  # saturates the scales; the second scale cannot undo that
    x = wide * RNG.normal(size=(1, C, 7, 6)).astype(np.float32)
    (expected,) = ReferenceEvaluator(onnx.load_from_string(data)).run(None, {"x": x})
    assert steps_apart(graph, x, expected).max() <= 1
    assert gives_litert_bytes(graph, litert)


@pytest.mark.litert
@pytest.mark.parametrize("name", QOPERATOR)
def test_qlinear_ops_give_litert_bytes(name: str, litert: ModuleType) -> None:
    shape = (1, C, 7, 6) if name.startswith("conv") else (1, 5, C)
    data = model(QOPERATOR[name], shape, (TensorProto.INT8, TensorProto.INT8))
    graph = from_onnx(data, name)
    q = RNG.integers(-128, 128, shape).astype(np.int8)
    (expected,) = ReferenceEvaluator(onnx.load_from_string(data)).run(None, {"x": q})
    (found,) = ops.run(graph, {"x": np.ascontiguousarray(last(q))}).values()
    assert np.abs(found.astype(int) - last(expected)).max() <= 1
    assert gives_litert_bytes(graph, litert)


@pytest.mark.parametrize("name", BY_HAND)
def test_quantised_ops_of_onnx_runtime_differ_by_at_most_a_step(name: str) -> None:
    nodes, function = BY_HAND[name]
    shape = (1, C) if name == "gemm" else (1, C, 7, 6)
    graph = from_onnx(model(nodes, shape, (TensorProto.INT8, TensorProto.INT8)), name)
    q = RNG.integers(-128, 128, shape).astype(np.int8)
    x = (q.astype(np.float32) + 3) * SCALES["xs"]
    assert graph.tensors["x"].quant == Quant((float(SCALES["xs"]),), (-3,))
    assert steps_apart(graph, x, function(x)).max() <= 1


def test_uint8_zero_points_are_shifted_to_int8() -> None:
    (source,) = from_onnx(model(QDQ["conv-uint8"]), "unsigned").inputs
    graph = from_onnx(model(QDQ["conv-uint8"]), "unsigned")
    assert graph.tensors[source].quant == Quant((float(SCALES["xs"]),), (-3,))
    assert graph.tensors[graph.outputs[0]].quant == Quant((float(SCALES["ys"]),), (5,))


def test_weights_and_biases_keep_the_integers_of_the_file() -> None:
    graph = from_onnx(model(QDQ["conv"]), "exact")
    (op,) = graph.ops
    weights, bias = graph.input(op, 1), graph.input(op, 2)
    assert np.array_equal(weights.data, SCALES["w"].transpose(0, 2, 3, 1)) and np.array_equal(bias.data, SCALES["b"])
    assert weights.quant == Quant(tuple(map(float, SCALES["ws"])), (0,) * C, 0)


@pytest.mark.litert
def test_integers_that_are_added_before_a_softmax_are_no_mask(litert: ModuleType) -> None:
    """A float mask is limited to -100; -128 times the scale 0.01 is -1.28."""
    nodes = [
        ("DequantizeLinear", ["scores", "ms", "mz"], "s.real", {}), *pair("x", "a"),
        ("Add", ["a", "s.real"], "c", {}), *pair("c", "d", "ys", "yz"), ("Softmax", ["d"], "y", {"axis": 1}),
    ]  # fmt: skip
    graph = from_onnx(model(nodes), "softmax")
    (kept,) = (tensor.data for tensor in graph.tensors.values() if tensor.data is not None)
    assert np.array_equal(kept.ravel(), SCALES["scores"].ravel()) and gives_litert_bytes(graph, litert)


def test_an_activation_is_fused_unless_its_input_is_quantised_separately() -> None:
    assert [op.kind for op in from_onnx(model(QDQ["conv-relu"]), "g").ops] == ["conv_2d"]
    assert [op.kind for op in from_onnx(model(QDQ["conv-rounded-relu"]), "g").ops] == ["conv_2d", "relu"]


REFUSED: dict[str, tuple[list[Op], str]] = {
    "16 bits": (pair("x", "y", "xs", "h"), "its integers are int16; int8 and uint8 are supported"),
    "another scale behind": (
        [("QuantizeLinear", ["x", "xs", "xz"], "q", {}), ("DequantizeLinear", ["q", "ys", "xz"], "y", {})],
        "its scale or zero point differs from those that its input was quantised with",
    ),
    "scales of a map's channels": (
        pair("x", "y", "ws", "wz"), "its input has per-channel scales; TFLite supports them for constants only",
    ),
    "scales that are found at run time": (
        [("DynamicQuantizeLinear", ["x"], "y", {})], "it computes scales at run time",
    ),
    "weights far from 0": (
        [("DequantizeLinear", ["w", "ms", "asymmetric"], "v", {}), *pair("x", "a"), ("Conv", ["a", "v"], "c", {}),
         *pair("c", "y", "ys", "yz")],
        "has the zero point 9, from which some weights differ by more than 8 bits; quantise weights symmetrically",
    ),
    "weights with scales along inputs": (
        [("DequantizeLinear", ["w", "ws", "wz"], "v", {"axis": 1}), *pair("x", "a"), ("Conv", ["a", "v"], "c", {}),
         *pair("c", "y", "ys", "yz")],
        "has scales along axis 3; TFLite has one per output channel",
    ),
    "an output without a scale": (
        [*WEIGHTS, *pair("x", "a"), ("Conv", ["a", "w.real"], "y", {})],
        "without a scale for its output 'y', made by conv_2d; int8 networks have int8 outputs: quantise and dequantise",
    ),
    "inner tensors without a scale": (
        [*WEIGHTS, *pair("x", "a"), ("Conv", ["a", "w.real"], "c", {}), ("Elu", ["c"], "d", {}), *pair("d", "y", *Y)],
        "the model was quantised without a scale for 'c', made by conv_2d; it cannot be inferred from its neighbours",
    ),
    "a quotient": (
        [*pair("x", "a"), *pair("x", "e", *Y), ("Div", ["a", "e"], "c", {}), *pair("c", "y", *Y)],
        "the model was quantised without a scale for 'c', made by reciprocal; it cannot be inferred from its neighbours",
    ),
    "an op without a rule": (
        [("QLinearConv", ["x", *X, *W, *Y, "b"], "q", {}), ("DequantizeLinear", ["q", *Y], "d", {}), ("Det", ["d"], "y", {})],
        "Det (in y): tinyweave does not import it",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_quantisation_that_tflite_cannot_hold_is_refused_in_one_line(name: str) -> None:
    nodes, message = REFUSED[name]
    with pytest.raises(CompileError) as error:
        from_onnx(model(nodes), name)
    assert message in str(error.value) and "\n" not in str(error.value)


# missing scales


def chain(*kinds: str, first: Quant | None, end: Quant | None) -> Graph:
    """Return a chain of unary ops on "t0" in which only the first and the last tensor may have scales."""
    names = [f"t{index}" for index in range(len(kinds) + 1)]
    tensors = {name: Tensor(name, (1, 8), "float32") for name in names}
    tensors["t0"], tensors[names[-1]] = replace(tensors["t0"], quant=first), replace(tensors[names[-1]], quant=end)
    made = tuple(GraphOp(f"{kind}_{i}", kind, (names[i],), (names[i + 1],), {}) for i, kind in enumerate(kinds))
    return verify(Graph("g", tensors, made, ("t0",), (names[-1],)))


@pytest.mark.parametrize(
    ("kinds", "first", "end", "tensor", "range_"),
    [
        (("hard_swish", "tanh"), Quant((2 / 255,), (-128,)), None, "t1", (0.0, 5 / 3)),  # possible range
        (("relu", "tanh"), Quant((2 / 255,), (0,)), None, "t1", (0.0, 127 * 2 / 255)),
        (("hard_swish",), None, Quant((0.04,), (-119,)), "t0", (-3.0, 9.84)),  # useful range
        (("relu6",), None, Quant((0.04,), (-128,)), "t0", (0.0, 6.0)),
        (("logistic",), None, None, "t0", (-6.25, 6.25)),
    ],
)
def test_a_missing_scale_is_derived_from_the_neighbours(
    kinds: tuple[str, ...], first: Quant | None, end: Quant | None, tensor: str, range_: tuple[float, float]
) -> None:
    graph, (low, high) = from_prequantised(chain(*kinds, first=first, end=end)), range_
    quant = graph.tensors[tensor].quant
    assert quant is not None
    least, most = ((step - quant.zero_point[0]) * quant.scale[0] for step in (-128, 127))
    assert least == pytest.approx(low, abs=quant.scale[0]) and most == pytest.approx(high, abs=quant.scale[0])


def with_constant(kind: str, value: float, *, first: bool = False) -> Graph:
    """Return an op on "x" and a constant, then a tanh; only the input and the end have scales."""
    tensors = {name: Tensor(name, (1, 8), "float32") for name in ("x", "y", "z")}
    tensors["c"] = Tensor("c", (8,), "float32", None, np.full(8, value, np.float32), "constant")
    tensors["x"], tensors["z"] = (replace(tensors[n], quant=Quant((0.02,), (-28,))) for n in ("x", "z"))
    ops_ = (
        GraphOp("a", kind, ("c", "x") if first else ("x", "c"), ("y",), {"activation": "none"}),
        GraphOp("b", "tanh", ("y",), ("z",), {}),
    )
    return verify(Graph("g", tensors, ops_, ("x",), ("z",)))


def test_a_missing_scale_after_an_op_with_a_constant_covers_its_possible_range() -> None:
    """x is in [-2, 3.1]; a tanh saturates outside [-3.5, 3.5]."""
    expected = {
        ("add", False): (-1.5, 3.5),
        ("sub", False): (-2.5, 2.6),
        ("sub", True): (-2.6, 2.5),
        ("mul", False): (-1, 1.55),
    }
    for (kind, first), (low, high) in expected.items():
        quant = from_prequantised(with_constant(kind, 0.5, first=first)).tensors["y"].quant
        assert quant is not None
        least, most = ((step - quant.zero_point[0]) * quant.scale[0] for step in (-128, 127))
        assert (least, most) == pytest.approx((low, high), abs=quant.scale[0]), (kind, first)


def test_an_lstm_in_a_quantised_model_is_refused_by_name() -> None:
    rng = np.random.default_rng(0)
    shapes = {"w": (1, 16, C), "r": (1, 16, C)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "xs", "xz"], ["a"]),
        helper.make_node("LSTM", ["a", "w", "r"], ["y"], hidden_size=C),
    ]
    constants = [numpy_helper.from_array(np.asarray(SCALES[name]), name) for name in ("xs", "xz")]
    constants += [numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name) for name, shape in shapes.items()]
    edges = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", (3, 1, C)), ("y", None))]
    made = helper.make_model(
        helper.make_graph(nodes, "lstm", edges[:1], edges[1:], constants),
        opset_imports=[helper.make_opsetid("", 19)],
        ir_version=8,
    )
    with pytest.raises(CompileError, match=r"lstm.*: keeps a state for which the file has no scale; give the float model"):
        from_onnx(made.SerializeToString(), "lstm")


def test_a_hard_sigmoid_left_in_float_gets_scales() -> None:
    """x + 3 is clamped to [0, 6], so x needs only [-3, 3]."""
    names = ("x", "a", "b", "c")
    tensors = {name: Tensor(name, (1, 8), "float32") for name in names}
    for name, value in (("three", 3.0), ("sixth", 1 / 6)):
        tensors[name] = Tensor(name, (1,), "float32", None, np.array([value], np.float32), "constant")
    tensors["c"] = replace(tensors["c"], quant=Quant((1 / 255,), (-128,)))
    none = {"activation": "none"}
    made = (
        GraphOp("1", "add", ("x", "three"), ("a",), none), GraphOp("2", "relu6", ("a",), ("b",), {}),
        GraphOp("3", "mul", ("b", "sixth"), ("c",), none),
    )  # fmt: skip
    graph = from_prequantised(verify(Graph("g", tensors, made, ("x",), ("c",))))
    scales = [graph.tensors[name].quant for name in names]
    assert [quant.scale[0] * 255 for quant in scales if quant] == pytest.approx([6, 6, 6, 1], rel=0.01)


# models of other tools


def samples(shape: tuple[int, ...], count: int, seed: int) -> list[np.ndarray]:
    return [np.random.default_rng((seed, i)).standard_normal(shape).astype(np.float32) for i in range(count)]


def near(name: str, apart: list[np.ndarray], most: int, share: float) -> None:
    every = np.concatenate([part.ravel() for part in apart])
    print(f"{name}: at most {every.max()} steps apart, {np.mean(every == 0):.1%} of the outputs equal")
    assert every.max() <= most and np.mean(every == 0) >= share


@pytest.mark.litert
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("name", ["ds_cnn", "resnet8"])
def test_models_quantised_by_onnx_runtime_give_nearly_its_outputs(name: str, form: str, tmp_path: Path, litert: ModuleType):
    runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install onnxruntime")
    torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")
    from cases.architectures import network
    from cases.from_torch import trained
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.left = iter(samples(tuple(example.shape), 8, 0))

        def get_next(self) -> Any:
            return next(({"x": x} for x in self.left), None)

    module, example = network(name)
    real, small = tmp_path / "float.onnx", tmp_path / "int8.onnx"
    torch.onnx.export(trained(module), (example,), real, dynamo=False, opset_version=17, input_names=["x"])
    types = {"activation_type": QuantType.QUInt8 if form == "QDQ" else QuantType.QInt8, "weight_type": QuantType.QInt8}
    quantize_static(real, small, Reader(), quant_format=QuantFormat[form], per_channel=True, **types)
    graph = from_onnx(small.read_bytes(), name)
    session = runtime.InferenceSession(small, providers=["CPUExecutionProvider"])
    given = samples(tuple(example.shape), 10, 1)
    near(f"{name}, {form}", [steps_apart(graph, x, session.run(None, {"x": x})[0]) for x in given], 4, 0.3)
    assert gives_litert_bytes(graph, litert)


def converted(module: Any, example: Any, quantizer: Any, *, folded: bool = True) -> tuple[Any, Any]:
    """Return the module that torchao's quantizer gives, and its exported program, with float weights unless `folded`."""
    import torch
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    prepared = prepare_pt2e(torch.export.export(module, (example,)).module(), quantizer)
    for x in samples(tuple(example.shape), 8, 0):
        prepared(torch.from_numpy(x))
    made = convert_pt2e(prepared, fold_quantize=folded)
    return made, torch.export.export(made, (example,))


@pytest.mark.litert
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["ds_cnn", "resnet8"])
def test_models_of_torchaos_xnnpack_quantizer_give_nearly_its_outputs(name: str, litert: ModuleType) -> None:
    pytest.importorskip("torchao", reason="needs torchao: pip install torchao")
    import torch
    from cases.architectures import network
    from cases.from_torch import trained
    from torchao.testing.pt2e._xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

    from tinyweave.importers.pt2 import from_pt2
    from tinyweave.importers.torch import from_module, from_program
    from tinyweave.ir import diff

    module, example = network(name)
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    made, program = converted(trained(module), example, quantizer)
    graph = from_program(program, name)
    assert diff(from_module(made, example, name), graph) == []
    given = samples(tuple(example.shape), 10, 1)
    near(f"{name}, torchao", [steps_apart(graph, x, made(torch.from_numpy(x)).detach().numpy()) for x in given], 4, 0.3)
    assert gives_litert_bytes(graph, litert)
    file = io.BytesIO()
    torch.export.save(program, file)
    assert diff(from_pt2(file.getvalue(), name), graph) == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("per_channel", [False, True])
def test_float_weights_that_the_program_quantises_become_the_same_integers(per_channel: bool) -> None:
    pytest.importorskip("torchao", reason="needs torchao: pip install torchao")
    import torch
    from torch import nn
    from torchao.testing.pt2e._xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

    from tinyweave.importers.torch import from_program

    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 1), nn.Flatten(), nn.Linear(144, 5)).eval()
    example = torch.from_numpy(samples((1, 3, 8, 8), 1, 0)[0])
    graphs = []
    for folded in (True, False):
        quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=per_channel))
        _, program = converted(net, example, quantizer, folded=folded)
        graphs.append(from_program(program, "net"))
    weights = [[t.data for t in graph.tensors.values() if t.data is not None and t.dtype == "int8"] for graph in graphs]
    assert len(weights[0]) == 3 and all(map(np.array_equal, *weights))


@pytest.mark.filterwarnings("ignore")
def test_scales_that_torchaos_x86_quantizer_leaves_out_are_derived_or_reported() -> None:
    """The quantizer gives the last layer no scale. The scale of a convolution is derived from the hard-swish after it."""
    pytest.importorskip("torchao", reason="needs torchao: pip install torchao")
    import torch
    from torch import nn
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    from tinyweave.importers.torch import from_program

    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Hardswish(), nn.Conv2d(8, 4, 1), nn.Sigmoid()).eval()
    example = torch.from_numpy(samples((1, 3, 8, 8), 1, 0)[0])
    config = x86.get_default_x86_inductor_quantization_config()
    made, program = converted(net, example, x86.X86InductorQuantizer().set_global(config))
    graph = from_program(program, "x86")
    x = samples((1, 3, 8, 8), 1, 1)[0]
    near("x86", [steps_apart(graph, x, made(torch.from_numpy(x)).detach().numpy())], 3, 0.1)
    _, program = converted(net[:3], example, x86.X86InductorQuantizer().set_global(config))
    with pytest.raises(CompileError, match="without a scale for its output '2', made by conv_2d; int8 networks"):
        from_program(program, "x86")
