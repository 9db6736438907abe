"""Forms of ONNX files that exporters and optimisers write: each equals ONNX Runtime, or is refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install '.[onnx]'")

from cases.from_onnx import CONV, Case, check_refused, distance, floats, ints, model, one, run_by_runtime  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from tinyweave import ops  # noqa: E402
from tinyweave.exporters.tflite import to_tflite  # noqa: E402
from tinyweave.importers.onnx import from_onnx  # noqa: E402
from tinyweave.ir import CompileError, Graph  # noqa: E402
from tinyweave.quantize.calibration_samples import open_samples  # noqa: E402
from tinyweave.quantize.fidelity import as_int8, fidelity  # noqa: E402
from tinyweave.quantize.ptq import QuantiseOptions, quantise  # noqa: E402

CLOSE = 1e-5  # of the output's range
W, B = floats(5, 4, 3, 3), floats(5)
PADDED = {"pads": [1, 1, 1, 1]}


def check_close(data: bytes, *shapes: tuple[int, ...], close: float = CLOSE, by_reference: bool = False) -> Graph:
    """Import a file, compare its outputs with ONNX Runtime's or the reference's on random inputs, and return the graph."""
    graph, file = from_onnx(data, "net"), onnx.load_from_string(data)
    inputs = [value for value in file.graph.input if value.name not in {t.name for t in file.graph.initializer}]
    x = [floats(*shape) for shape in shapes]
    types = [helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type) for value in inputs]
    given = {value.name: each.astype(dtype) for value, each, dtype in zip(inputs, x, types, strict=True)}
    expected = ReferenceEvaluator(file).run(None, given) if by_reference else run_by_runtime(data, given)
    assert distance(graph, x, expected[-len(graph.outputs) :]) < close
    return graph


def kinds(graph: Graph) -> list[str]:
    return [op.kind for op in graph.ops]


# optimised by ONNX Runtime

SQRT = np.float32(np.sqrt(2))
GELU = [
    ("Div", ("x", "root"), ("d",), {}), ("Erf", ("d",), ("e",), {}), ("Add", ("e", "one"), ("s",), {}),
    ("Mul", ("x", "s"), ("p",), {}), ("Mul", ("p", "half"), ("y",), {}),
]  # fmt: skip
NUMBERS = {"root": SQRT, "one": np.float32(1), "half": np.float32(0.5)}
NORM = {"scale": floats(8), "offset": floats(8)}
# form -> the case, and ops of com.microsoft that ONNX Runtime's extended optimisation makes of it
OPTIMISED: dict[str, tuple[Case, set[str]]] = {
    **{
        f"conv-{op.lower()}": (
            ([("Conv", ("x", "w", "b"), ("c",), PADDED), (op, ("c", *more), ("y",), at)], {"x": CONV},
             {"w": W, "b": B, **given}),
            {"FusedConv"},
        )
        for op, more, given, at in (
            ("Relu", (), {}, {}), ("Sigmoid", (), {}, {}), ("Tanh", (), {}, {}), ("LeakyRelu", (), {}, {"alpha": 0.3}),
            ("HardSigmoid", (), {}, {"alpha": 0.3, "beta": 0.4}),
            ("Clip", ("low", "high"), {"low": np.float32(-0.3), "high": np.float32(0.5)}, {}),
        )
    },
    "gemm-relu": (
        ([("Gemm", ("x", "w", "b"), ("g",), {}), ("LeakyRelu", ("g",), ("y",), {"alpha": 0.2})], {"x": (1, 12)},
         {"w": floats(12, 7), "b": floats(7)}),
        {"FusedGemm"},
    ),
    "matmul-of-a-transpose": (
        ([("Transpose", ("x",), ("t",), {"perm": [0, 2, 1]}), ("MatMul", ("x", "t"), ("m",), {}),
          ("Mul", ("m", "half"), ("y",), {})], {"x": (1, 6, 8)}, {"half": np.float32(0.5)}),
        {"FusedMatMul"},
    ),
    "gelu": ((GELU, {"x": (1, 6, 8)}, NUMBERS), {"Gelu"}),
    "bias-gelu": (
        ([("Add", ("z", "bias"), ("x",), {}), *GELU], {"z": (1, 6, 8)}, {**NUMBERS, "bias": floats(8)}), {"BiasGelu"},
    ),
    "quick-gelu": (
        ([("Mul", ("x", "alpha"), ("m",), {}), ("Sigmoid", ("m",), ("s",), {}), ("Mul", ("x", "s"), ("y",), {})],
         {"x": (1, 6, 8)}, {"alpha": np.float32(1.702)}),
        {"QuickGelu"},
    ),
    "skip-layer-norm": (
        ([("Add", ("x", "z"), ("a",), {}),
          ("LayerNormalization", ("a", "scale", "offset"), ("y",), {"axis": -1})], {"x": (1, 6, 8), "z": (1, 6, 8)}, NORM),
        {"SkipLayerNormalization"},
    ),
}  # fmt: skip


def optimised(data: bytes, folder: Path, level: str = "EXTENDED") -> bytes:
    """Return the file that ONNX Runtime saves after its optimisation of this level."""
    runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install onnxruntime")
    options = runtime.SessionOptions()
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    options.log_severity_level = 4
    runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return (folder / "optimised.onnx").read_bytes()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("unsigned", [False, True])
def test_quantised_files_that_onnx_runtime_optimised_give_the_same_bytes(unsigned: bool, tmp_path: Path) -> None:
    """At the level ALL, convolutions and pools of ONNX Runtime have their channels last."""
    quantization = pytest.importorskip("onnxruntime.quantization", reason="needs onnxruntime: pip install onnxruntime")
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        ("Conv", ("x", "w", "b"), ("c",), PADDED), ("Relu", ("c",), ("r",), {}), ("MaxPool", ("r",), ("m",), pool),
        ("Conv", ("m", "v"), ("d",), PADDED), ("Sigmoid", ("d",), ("s",), {}), ("Mul", ("d", "s"), ("p",), {}),
        ("Add", ("p", "m"), ("a",), {}), ("Concat", ("a", "m"), ("k",), {"axis": 1}), ("AveragePool", ("k",), ("e",), pool),
        ("GlobalAveragePool", ("e",), ("g",), {}), ("Flatten", ("g",), ("f",), {}),
        ("Gemm", ("f", "u", "o"), ("y",), {"transB": 1}),
    ]  # fmt: skip
    constants = {"w": floats(6, 4, 3, 3), "b": floats(6), "v": floats(6, 6, 3, 3), "u": floats(5, 12), "o": floats(5)}
    (tmp_path / "float.onnx").write_bytes(model((nodes, {"x": (1, 4, 16, 16)}, constants), opset=17))
    samples = iter([{"x": floats(1, 4, 16, 16)} for _ in range(4)])

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc, name-defined]
        def get_next(self) -> Any:
            return next(samples, None)

    types = quantization.QuantType
    quantization.quantize_static(
        tmp_path / "float.onnx", tmp_path / "int8.onnx", Reader(), quant_format=quantization.QuantFormat.QOperator,
        activation_type=types.QUInt8 if unsigned else types.QInt8, weight_type=types.QInt8,
    )  # fmt: skip
    data = (tmp_path / "int8.onnx").read_bytes()
    made = optimised(data, tmp_path, "ALL")
    assert {"NhwcMaxPool", "QLinearConv"} <= {n.op_type for n in onnx.load_from_string(made).graph.node if n.domain}
    one_, two = from_onnx(data, "net"), from_onnx(made, "net")
    x = np.random.default_rng(2).integers(-128, 128, one_.tensors["x"].shape).astype(np.int8)
    first, second = (next(iter(ops.run(each, {"x": x}).values())) for each in (one_, two))
    assert first.std() > 5 and first.tobytes() == second.tobytes()


def test_channels_in_blocks_are_refused_with_the_cause(tmp_path: Path) -> None:
    made = model(one("Conv", 1, 16, 9, 8, given=[floats(16, 16, 3, 3)]), opset=17)
    file = onnx.load_from_string(made)
    file.graph.node[0].domain = "com.microsoft.nchwc"
    check_refused(file.SerializeToString(), "save the model with ORT_ENABLE_EXTENDED instead of ORT_ENABLE_ALL")


@pytest.mark.parametrize("name", OPTIMISED)
def test_files_that_onnx_runtime_optimised_compute_the_same(name: str, tmp_path: Path) -> None:
    case, wanted = OPTIMISED[name]
    data = optimised(model(case, opset=17), tmp_path)
    found = {node.op_type for node in onnx.load_from_string(data).graph.node if node.domain == "com.microsoft"}
    assert found == wanted
    check_close(data, *case[1].values())


def of_microsoft(
    op: str, *shapes: tuple[int, ...], given: dict[str, Any], outputs: tuple[str, ...] = ("y",), **at: Any
) -> bytes:
    names = [f"x{index}" for index in range(len(shapes))]
    made = onnx.load_from_string(
        model(([(op, [*names, *given], outputs, at)], dict(zip(names, shapes, strict=True)), given), outputs)
    )
    made.graph.node[0].domain = "com.microsoft"
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return bytes(made.SerializeToString())


@pytest.mark.parametrize(
    ("data", "shapes"),
    [
        (of_microsoft("FastGelu", (1, 6, 8), given={"bias": floats(8)}), [(1, 6, 8)]),
        (of_microsoft("FusedMatMul", (1, 8, 6), given={"w": floats(5, 8)}, transA=1, transB=1, alpha=0.3), [(1, 8, 6)]),
        (of_microsoft("TransposeMatMul", (1, 8, 6), (1, 8, 5), given={}, transA=1, alpha=0.3), [(1, 8, 6), (1, 8, 5)]),
        (of_microsoft("SkipLayerNormalization", (1, 6, 8), (1, 6, 8), given={**NORM, "bias": floats(8)}, epsilon=1e-5),
         [(1, 6, 8)] * 2),
        (of_microsoft("SkipSimplifiedLayerNormalization", (1, 6, 8), (1, 6, 8), given={"scale": floats(8)}, epsilon=1e-5),
         [(1, 6, 8)] * 2),
    ],
    ids=["fast-gelu", "fused-matmul", "transpose-matmul", "skip-layer-norm-bias", "skip-rms-norm"],
)  # fmt: skip
def test_other_ops_of_onnx_runtime(data: bytes, shapes: list[tuple[int, ...]]) -> None:
    check_close(data, *shapes, close=1e-4)


# branches


def with_if(condition: Any, then: list[Any], other: list[Any], *, before: list[Any] = [], made: int = 1) -> bytes:  # noqa: B006
    """Return a file of an If behind a Relu; both branches may read x and r, and give the outputs t0, t1, ..."""
    names = [f"t{index}" for index in range(made)]
    branches = [
        helper.make_graph(
            [each if isinstance(each, onnx.NodeProto) else helper.make_node(*each[:3], **each[3]) for each in nodes], "b", [],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names],
            [numpy_helper.from_array(np.float32(factor), "factor")],
        )
        for nodes, factor in ((then, 2), (other, 3))
    ]  # fmt: skip
    constants = {} if condition is None else {"c": condition}
    case = [("Relu", ("x",), ("r",), {}), *before], {"x": CONV}, constants
    file = onnx.load_from_string(model(case, names))
    file.graph.node.append(helper.make_node("If", ["c"], names, then_branch=branches[0], else_branch=branches[1]))
    return bytes(file.SerializeToString())


TIMES, PLUS = [("Mul", ("r", "factor"), ("t0",), {})], [("Add", ("x", "factor"), ("t0",), {})]


@pytest.mark.parametrize(("condition", "kind"), [(True, "mul"), (np.array([False]), "add")])
def test_an_if_with_a_constant_condition_is_its_branch(condition: Any, kind: str) -> None:
    """Both branches use the same names, one for an initializer."""
    graph = check_close(with_if(np.asarray(condition), TIMES, PLUS), CONV)
    assert kind in kinds(graph) and {"mul", "add"} - {kind, *kinds(graph)}


def test_an_if_on_an_integer_input_asks_for_a_value_in_the_file() -> None:
    """Files of Silero VAD contain two networks, and select one by the sampling rate in this way."""
    rate = [("Reshape", ("sr", "flat"), ("v",), {}), ("Equal", ("v", "rate"), ("c",), {})]
    given = {"flat": np.array([1]), "rate": np.array([16000])}
    file = onnx.load_from_string(with_if(None, TIMES, PLUS, before=rate))
    file.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in given.items())
    file.graph.input.append(helper.make_tensor_value_info("sr", TensorProto.INT64, []))
    advice = r"computes on integers of the input 'sr', which .* or return them, or make it a constant"
    with pytest.raises(CompileError, match=advice):
        from_onnx(file.SerializeToString(), "net")
    file.graph.input.pop()
    file.graph.initializer.append(numpy_helper.from_array(np.array(16000), "sr"))
    assert "mul" in kinds(check_close(file.SerializeToString(), CONV))


def test_an_if_on_a_shape_with_an_impossible_other_branch() -> None:
    """PyTorch exports squeeze so: the branch that is not taken would be refused."""
    before = [
        ("Shape", ("r",), ("s",), {}), ("Constant", (), ("zero",), {"value_int": 0}), ("Gather", ("s", "zero"), ("n",), {}),
        ("Constant", (), ("one",), {"value_int": 1}), ("Equal", ("n", "one"), ("c",), {}),
    ]  # fmt: skip
    refused = [("NonZero", ("r",), ("z",), {}), ("Cast", ("z",), ("t0",), {"to": TensorProto.FLOAT})]
    data = with_if(None, TIMES, refused, before=before)
    assert "mul" in kinds(check_close(data, CONV))


def test_ifs_in_ifs_and_several_outputs() -> None:
    two = [("Mul", ("r", "factor"), ("t0",), {}), ("Sub", ("t0", "x"), ("t1",), {})]
    inner = onnx.load_from_string(with_if(np.array(True), TIMES, PLUS)).graph.node[-1]
    inner.input[0], inner.output[0] = "c", "u"
    nested = [inner, ("Add", ("u", "factor"), ("t0",), {}), ("Tanh", ("u",), ("t1",), {})]
    check_close(with_if(np.array(True), nested, two, made=2), CONV, by_reference=True)
    check_close(with_if(np.array(False), nested, two, made=2), CONV, by_reference=True)


def test_a_computed_condition_is_refused() -> None:
    before = [
        ("ReduceMax", ("r",), ("m",), {"keepdims": 0}),
        ("Greater", ("m", "r0"), ("c",), {}),
        ("Sub", ("m", "m"), ("r0",), {}),
    ]
    check_refused(
        with_if(None, TIMES, PLUS, before=before),
        "If (in t0): its condition is computed by the network; compute both branches and select with where (SELECT_V2)",
    )


# function bodies


def test_ops_without_an_importer_are_their_function_body() -> None:
    for alpha in ({}, {"alpha": 0.7}):
        check_close(model(one("Swish", 1, 6, 8, **alpha), opset=24), (1, 6, 8), by_reference=True)
    sines = {"c": floats(1, 4, 4), "s": floats(1, 4, 4)}
    rotated = ([("RotaryEmbedding", ("x", "c", "s"), ("y",), {})], {"x": (1, 2, 4, 8)}, sines)
    check_close(model(rotated, opset=23), (1, 2, 4, 8), by_reference=True)


def test_local_functions_are_inlined() -> None:
    """A function with an attribute, which calls another one; both are called twice."""
    double = helper.make_function("own", "Double", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [OPSET])
    body = [helper.make_node("Double", ["a"], ["d"], domain="own"), helper.make_node("LeakyRelu", ["d"], ["b"])]
    slope = onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    body[1].attribute.append(slope)
    leaky = helper.make_function("own", "Leaky", ["a"], ["b"], body, [OPSET, helper.make_opsetid("own", 1)], ["slope"])
    nodes = [
        helper.make_node("Leaky", ["x"], ["m"], domain="own", slope=0.3),
        helper.make_node("Leaky", ["m"], ["y"], domain="own", slope=0.1),
    ]
    graph = onnx.load_from_string(model(one("Relu", *CONV))).graph
    del graph.node[:]
    graph.node.extend(nodes)
    opsets = [OPSET, helper.make_opsetid("own", 1)]
    made = helper.make_model(graph, functions=[double, leaky], opset_imports=opsets, ir_version=8)
    check_close(made.SerializeToString(), CONV)


OPSET = helper.make_opsetid("", 18)


# float16


@pytest.mark.parametrize("keeps_io", [True, False])
def test_float16_files_are_read_as_float32(keeps_io: bool) -> None:
    """The weights, and perhaps the inputs and outputs, are float16."""
    half = [("Conv", ("h", "w", "b"), ("c",), PADDED), ("Clip", ("c", "low"), ("r",), {})]
    casts = [("Cast", ("x",), ("h",), {"to": TensorProto.FLOAT16})], [("Cast", ("r",), ("y",), {"to": TensorProto.FLOAT})]
    names = {"w": W.astype(np.float16), "b": B.astype(np.float16), "low": np.float16(0)}
    if keeps_io:
        data = model(([*casts[0], *half, *casts[1]], {"x": CONV}, names))
    else:
        file = onnx.load_from_string(model((half, {"h": CONV}, names), ["r"]))
        for value in (*file.graph.input, *file.graph.output):
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
        data = file.SerializeToString()
    assert kinds(check_close(data, CONV, close=2e-3)) == ["conv_2d"]


def test_weights_without_quantised_activations_are_dequantised() -> None:
    integers = np.random.default_rng(0).integers(-127, 128, W.shape).astype(np.int8)
    given = {"q": integers, "s": np.full(5, 0.01, np.float32), "z": np.zeros(5, np.int8)}
    nodes = [("DequantizeLinear", ("q", "s", "z"), ("w",), {"axis": 0}), ("Conv", ("x", "w"), ("y",), PADDED)]
    graph = check_close(model((nodes, {"x": CONV}, given)), CONV)
    assert {tensor.dtype for tensor in graph.tensors.values()} == {"float32"}


# constant places

PLACES: dict[str, tuple[Case, set[str]]] = {
    "gather-channels": (one("GatherND", *CONV, given=[ints(0, 1, 0, 3).reshape(2, 2)]), {"strided_slice", "reshape"}),
    "gather-pixels": (one("GatherND", *CONV, given=[np.argwhere(np.ones((1, 4, 9, 8)))[::7]]), {"gather", "reshape"}),
    "gather-batch": (one("GatherND", 3, 4, 5, given=[ints(1, 0, 2).reshape(3, 1)], batch_dims=1), {"gather", "reshape"}),
    "gather-elements": (
        one("GatherElements", 1, 4, 6, given=[np.arange(8).reshape(1, 4, 2) % 5], axis=2), {"gather", "reshape"},
    ),
    "gather-elements-rows": (
        one("GatherElements", *CONV, given=[np.broadcast_to(ints(2, 5, 8).reshape(3, 1), (1, 4, 3, 8))], axis=2),
        {"strided_slice"},
    ),
    "scatter-constants": (
        one("ScatterND", *CONV, given=[ints(0, 1, 0, 3).reshape(2, 2), floats(2, 9, 8)]), {"select_v2"},
    ),
    "scatter-a-number": (
        one("ScatterND", *CONV, given=[ints(0, 2).reshape(1, 2), np.zeros((1, 9, 8), np.float32)]), {"select_v2"},
    ),
    "scatter-elements": (
        one("ScatterElements", 1, 4, 6, given=[ints(5, 0, 3, 3).reshape(1, 4, 1), floats(1, 4, 1)], axis=2), {"select_v2"},
    ),
    "scatter-a-slice": (
        ([("Tanh", ("z",), ("t",), {}), ("ScatterND", ("x", "i", "t"), ("y",), {})], {"x": CONV, "z": (2, 9, 8)},
         {"i": ints(0, 1, 0, 2).reshape(2, 2)}),
        {"tanh", "slice", "concatenation", "reshape"},
    ),
    "scatter-some": (
        ([("Tanh", ("z",), ("t",), {}), ("ScatterND", ("x", "i", "t"), ("y",), {})], {"x": CONV, "z": (2, 9, 8)},
         {"i": ints(0, 3, 0, 1).reshape(2, 2)}),
        {"tanh", "concatenation", "reshape", "gather"},
    ),
    "scatter-into-a-constant": (
        ([("ScatterND", ("c", "i", "x"), ("y",), {})], {"x": (2, 5)}, {"c": floats(4, 5), "i": ints(3, 1).reshape(2, 1)}),
        {"concatenation", "reshape", "gather"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_constant_places_are_read_and_written(name: str) -> None:
    case, allowed = PLACES[name]
    graph = check_close(model(case, opset=17), *case[1].values(), close=1e-6)
    assert {*kinds(graph)} <= allowed


def test_random_places_are_read_and_written() -> None:
    rng = np.random.default_rng(4)
    for _ in range(24):
        shape = tuple(int(extent) for extent in rng.integers(1, 6, rng.integers(1, 5)))
        axis, count = int(rng.integers(len(shape))), int(rng.integers(1, 4))
        depth = int(rng.integers(1, len(shape) + 1))
        at = np.stack([rng.integers(0, extent, count) for extent in shape[:depth]], 1)
        picked = [int(rng.integers(1, extent + 1)) for extent in shape]
        elements = rng.integers(0, shape[axis], picked)
        check_close(model(one("GatherND", *shape, given=[at])), shape, close=1e-6)
        check_close(model(one("GatherElements", *shape, given=[elements], axis=axis)), shape, close=1e-6)
        distinct = np.unique(at, axis=0)[rng.permutation(len(np.unique(at, axis=0)))]
        shapes = {"x": shape, "z": (len(distinct), *shape[depth:])}
        writes: Case = [("ScatterND", ("x", "i", "z"), ("y",), {})], shapes, {"i": distinct}
        check_close(model(writes, opset=17), *writes[1].values(), close=1e-6)


def test_computed_places_are_refused() -> None:
    case = [("ArgMax", ("x",), ("i",), {"axis": 1}), ("GatherElements", ("x", "i"), ("y",), {"axis": 1})], {"x": (1, 6)}, {}
    check_refused(
        model(case), "GatherElements (in y): its places are computed by the network; only constant places are supported"
    )


# scikit-learn


def of_ml(nodes: list[Any], outputs: list[str], shape: tuple[int, ...] = (1, 6)) -> bytes:
    """Return a file of nodes (op, inputs, outputs, attributes) of ai.onnx.ml, or of ONNX if the op is Cast."""
    file = onnx.load_from_string(model((nodes, {"x": shape}, {}), outputs))
    for node in file.graph.node:
        node.domain = "" if node.op_type in ("Cast", "MatMul") else "ai.onnx.ml"
    for value in file.graph.output:
        if value.name == "label":
            value.type.tensor_type.elem_type = TensorProto.INT64
    file.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    return bytes(file.SerializeToString())


FEATURES = {"coefficients": floats(18).tolist(), "intercepts": floats(3).tolist()}
SCALER = ("Scaler", ("x",), ("s",), {"offset": floats(6).tolist(), "scale": [0.5, 2, 1, 3, 0.1, 1]})
CLASSES = {**FEATURES, "classlabels_ints": [0, 1, 2], "multi_class": 1}


@pytest.mark.parametrize("after", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_linear_classifiers_give_their_scores_without_labels(after: str) -> None:
    nodes = [
        SCALER,
        ("LinearClassifier", ("s",), ("l", "p"), {**CLASSES, "post_transform": after}),
        ("Normalizer", ("p",), ("scores",), {"norm": "L1"}),
        ("Cast", ("l",), ("label",), {"to": TensorProto.INT64}),
    ]
    graph = check_close(of_ml(nodes, ["label", "scores"]), (1, 6))
    assert [graph.tensors[name].shape for name in graph.outputs] == [(1, 3)]


def test_linear_regressors_and_normalizers() -> None:
    for norm in ("MAX", "L1", "L2"):
        regressor = ("LinearRegressor", ("n",), ("y",), {**FEATURES, "targets": 3})
        nodes = [("Normalizer", ("x",), ("n",), {"norm": norm}), regressor]
        check_close(of_ml(nodes, ["y"]), (1, 6))


def test_features_that_the_network_computes_with_are_no_labels() -> None:
    """A support vector machine selects features by the op that elsewhere names classes; the file was "not readable"."""
    extract = ("ArrayFeatureExtractor", ("x", "p"), ("f",), {})
    nodes = [("Scaler", ("f",), ("y",), {"offset": [0.0], "scale": [1.0]})]
    file = of_ml([("LinearClassifier", ("x",), ("l", "p"), CLASSES), extract, *nodes], ["y"])
    check_refused(file, "ArrayFeatureExtractor (in f)")


def test_a_zip_map_is_dropped() -> None:
    zip_map = ("ZipMap", ("p",), ("y",), {"classlabels_int64s": [0, 1, 2]})
    file = of_ml([("LinearClassifier", ("x",), ("l", "p"), CLASSES), zip_map], ["y"])
    graph = from_onnx(file, "net")
    assert kinds(graph) == ["fully_connected"] and graph.tensors[graph.outputs[0]].shape == (1, 3)


# the int8 networks


@pytest.mark.litert
@pytest.mark.parametrize(
    ("name", "least"), [("scatter-constants", 40), ("scatter-a-slice", 40), ("scatter-some", 40), ("gather-pixels", 40)]
)
def test_the_int8_form_gives_litert_bytes(name: str, least: float, litert: Any) -> None:
    case, _ = PLACES[name]
    graph = from_onnx(model(case, opset=17), "net")
    given = {each: np.clip(floats(8, *graph.tensors[each].shape), -1, 1) for each in graph.inputs}
    samples = open_samples(given, graph)
    done = quantise(graph, samples, QuantiseOptions(method="minmax"))
    assert fidelity(done.real, done.graph, samples).sqnr_db > least
    x = {each: value[0] for each, value in as_int8(done.graph, given).items()}
    found, run = ops.run(done.graph, x), litert.run(to_tflite(done.graph), [[x[each] for each in done.graph.inputs]])[0]
    assert all(a.tobytes() == b.tobytes() for a, b in zip(found.values(), run.outputs, strict=True))
