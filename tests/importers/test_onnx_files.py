"""ONNX files of opsets below 13, with nodes in any order, functions, weights in a second file, and SAME padding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install '.[onnx]'")

from cases.from_onnx import Case, distance, floats, model, one, run_by_runtime  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402

from tinyweave import ops  # noqa: E402
from tinyweave.api import read  # noqa: E402
from tinyweave.importers.onnx import from_onnx  # noqa: E402
from tinyweave.importers.onnx_ops.old_forms import OLD_FORMS  # noqa: E402
from tinyweave.ir import CompileError  # noqa: E402

CLOSE = 1e-5  # of the output's range
CONV = (1, 4, 9, 8)
ROI = np.zeros(0, np.float32)
TWICE = [("Tanh", ("a",), ("t",), {}), ("Concat", ("t", "b"), ("y",), {"axis": 1})]
OLD: dict[str, tuple[int, Case]] = {
    "batch-norm-7": (7, one("BatchNormalization", *CONV, given=[floats(4), floats(4), floats(4), np.abs(floats(4)) + 0.5])),
    "batch-norm-8": (8, one("BatchNormalization", *CONV, given=[*floats(3, 4), np.ones(4, np.float32)], spatial=1)),
    "clip-6": (6, one("Clip", *CONV, min=-0.3, max=0.5)),
    "clip-10": (10, one("Clip", *CONV, max=0.5)),
    "clip-10-unlimited": (10, one("Clip", *CONV, min=-0.3, max=float(np.finfo(np.float32).max))),
    "dropout-7": (7, ([("Dropout", ("x",), ("d",), {}), ("Tanh", ("d",), ("y",), {})], {"x": CONV}, {})),
    "dropout-11": (11, ([("Dropout", ("x",), ("d", "m"), {"ratio": 0.3}), ("Tanh", ("d",), ("y",), {})], {"x": CONV}, {})),
    "max-7": (7, one("Max", *CONV, given=[floats(*CONV)])),
    "pad-2": (2, one("Pad", *CONV, pads=[0, 0, 1, 2, 0, 0, 2, 1], value=0.5)),
    "pad-10": (10, one("Pad", *CONV, pads=[0, 0, -1, 2, 0, 0, 2, 0])),
    "pad-10-reflected": (10, one("Pad", *CONV, pads=[0, 0, 1, 2, 0, 0, 2, 1], mode="reflect")),
    "prelu-7": (7, one("PRelu", *CONV, given=[floats(4, 1, 1)])),
    "slice-9": (9, one("Slice", *CONV, starts=[1, -5], ends=[4, -1], axes=[1, 3])),
    "slice-9-first-axes": (9, one("Slice", *CONV, starts=[0, 1], ends=[1, 1000])),
    "split-12": (12, ([("Split", ("x",), ("a", "b"), {"axis": 1, "split": [1, 3]}), *TWICE], {"x": CONV}, {})),
    "split-12-halves": (12, ([("Split", ("x",), ("a", "b"), {"axis": 1}), *TWICE], {"x": CONV}, {})),
    "squeeze-12": (12, one("Squeeze", 1, 12, 1, 1, axes=[2, 3])),
    "squeeze-12-all": (12, ([("Squeeze", ("x",), ("s",), {}), ("Relu", ("s",), ("y",), {})], {"x": (1, 12, 1, 7)}, {})),
    "sum-11": (11, one("ReduceSum", *CONV, axes=[2, 3], keepdims=0)),
    "top-k-9": (9, ([("TopK", ("x",), ("y", "i"), {"k": 3, "axis": 1})], {"x": (1, 6, 4)}, {})),
    "unsqueeze-12": (12, one("Unsqueeze", 1, 12, axes=[3, 1])),
    **{
        f"{op}-{opset}-{'x'.join(map(str, shape))}-{axis}": (
            opset, one(op, *shape, **({} if axis is None else {"axis": axis})),
        )
        for op in ("Softmax", "LogSoftmax")
        for opset, shape, axis in (
            (7, (1, 4, 5), None), (7, (1, 4), 1), (10, CONV, 2), (10, (1, 4, 1, 1), 1), (11, (1, 4, 5), 1),
            (11, (3, 4, 5), -2), (12, CONV, -1), (12, (2, 3), 0),
        )
    },
    # the first opsets of new forms
    "softmax-13": (13, one("Softmax", 1, 4, 5, axis=1)),
    "log-softmax-13": (13, one("LogSoftmax", 1, 4, 5, axis=1)),
    "resize-11": (11, one("Resize", *CONV, given=[ROI, np.array([1, 1, 2, 2], np.float32)], mode="linear")),
    # constants of an old form
    "constants-9": (9, ([
        ("Slice", ("c",), ("s",), {"starts": [1], "ends": [3], "axes": [1]}), ("Unsqueeze", ("s",), ("u",), {"axes": [0]}),
        ("Softmax", ("u",), ("m",), {"axis": 1}), ("Squeeze", ("m",), ("q",), {"axes": [0]}),
        ("Clip", ("q",), ("l",), {"max": 0.1}), ("Add", ("x", "l"), ("y",), {}),
    ], {"x": (1, 3, 2)}, {"c": floats(3, 4)})),
}  # fmt: skip


@pytest.mark.parametrize("name", OLD)
def test_a_file_of_an_old_opset_computes_what_onnx_runtime_does(name: str) -> None:
    opset, case = OLD[name]
    data = model(case, case[0][-1][2][:1], opset=opset)
    x = floats(*next(iter(case[1].values())))
    assert distance(from_onnx(data, name), [x], run_by_runtime(data, {"x": x})) < CLOSE


def test_each_old_form_that_onnx_runtime_knows_is_tested() -> None:
    """ONNX Runtime knows the opsets from 7 on."""
    tested = {(node[0], opset) for opset, (nodes, _, _) in OLD.values() for node in nodes}
    assert not {op for op, last, _ in OLD_FORMS if last >= 7 and (op, last) not in tested} - {"Resize", "Upsample"}
    assert {opset for opset, _ in UPSAMPLES} >= {
        last for op, last, _ in OLD_FORMS if last >= 7 and op in ("Resize", "Upsample")
    }


FACTORS = [
    (2, 2),
    (3, 3),
    (1.5, 1.5),
    (2, 3),
    (1, 2),
    (1.1, 1.7),
    (0.5, 0.5),
    (1 / 3, 1 / 3),
    (0.25, 0.25),
    (0.5, 2),
    (1.3, 0.3),
]
UPSAMPLES = [(opset, mode) for opset in (7, 8, 9, 10) for mode in ("nearest", "linear")]


@pytest.mark.parametrize(("opset", "mode"), UPSAMPLES)
def test_resizes_before_opset_11_give_the_pixels_of_onnx_runtime(opset: int, mode: str) -> None:
    """Only Resize, from opset 10 on, may shrink. The scales of Upsample were an attribute before opset 9."""
    for height, width in ((12, 12), (5, 7)):
        for factors in FACTORS if opset > 9 else FACTORS[:6]:
            scales = np.array([1, 1, *factors], np.float32)
            given = {"scales": scales.tolist()} if opset < 9 else {"given": [scales]}
            case = one("Resize" if opset > 9 else "Upsample", 1, 3, height, width, mode=mode, **given)
            data, x = model(case, opset=opset), floats(1, 3, height, width)
            assert distance(from_onnx(data, "resized"), [x], run_by_runtime(data, {"x": x})) < CLOSE, (factors, height)


C, X = floats(4), floats(*CONV)
RELU, C4 = np.maximum(X, 0), C[:, None, None]
DROPPED = [("Dropout", ("x",), ("d",), {"is_test": 1}), ("Relu", ("d",), ("y",), {})]
ONES_AND_BIAS = {"w": np.ones((X.size, 2), np.float32), "b": np.float32([1, 2])}
CAST = [("Relu", ("x",), ("r",), {}), ("Cast", ("r",), ("y",), {"to": "FLOAT"})]
GEMM = [("Flatten", ("x",), ("f",), {}), ("Gemm", ("f", "w", "b"), ("y",), {"broadcast": 1})]
SLOPED = np.where(X < 0, X * C4, X)
SELU = 1.0507 * np.where(X > 0, X, 1.6732 * (np.exp(X) - 1))
BEFORE_7: dict[str, tuple[int, Case, np.ndarray]] = {  # ONNX Runtime lacks these opsets
    "cast-5": (5, (CAST, {"x": CONV}, {}), RELU),
    "concat-3": (3, one("Concat", *CONV, given=[X]), np.concatenate([X, X], 1)),
    "dropout-6": (6, (DROPPED, {"x": CONV}, {}), RELU),
    "gemm-6": (6, (GEMM, {"x": CONV}, ONES_AND_BIAS), np.add([[1, 2]], X.sum())),
    "pad-1": (1, one("Pad", *CONV, paddings=[0, 0, 1, 0, 0, 0, 0, 2]), np.pad(X, ((0, 0), (0, 0), (1, 0), (0, 2)))),
    "prelu-6": (6, one("PRelu", *CONV, given=[C]), SLOPED),
    "batch-norm-6": (6, one("BatchNormalization", *CONV, given=[C, C, 0 * C, 0 * C + 1], is_test=1, epsilon=0.0), X * C4 + C4),
    "reshape-4": (4, one("Reshape", *CONV, shape=[1, 4, -1]), X.reshape(1, 4, -1)),
    "relu-5": (5, one("Relu", *CONV, consumed_inputs=[0]), RELU),
    "selu-5": (5, one("Selu", *CONV, consumed_inputs=[0]), SELU),
    "tile-5": (5, one("Tile", *CONV, given=[np.float32(2), np.float32(3)]), np.tile(X, (1, 1, 1, 2))),
    "upsample-1": (1, one("Upsample", *CONV, height_scale=2.0, width_scale=3.0), X.repeat(2, 2).repeat(3, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", BEFORE_7)
def test_a_form_before_opset_7_computes_what_the_changelog_says(name: str) -> None:
    opset, case, expected = BEFORE_7[name]
    assert distance(from_onnx(model(case, opset=opset), name), [X], [expected.astype(np.float32)]) < CLOSE


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize(
    ("batch", "shape", "axis"), [(1, (4,), 1), (1, (4, 9), 1), (1, (9,), 2), (4, (4,), 1), (1, (9, 8), -2)]
)
def test_an_operand_is_aligned_at_its_axis_before_opset_7(opset: int, batch: int, shape: tuple[int, ...], axis: int) -> None:
    x, other = floats(batch, *CONV[1:]), floats(*shape)
    data = model(one("Mul", *x.shape, given=[other], axis=axis, broadcast=1), opset=opset)
    aligned = other.reshape(*shape, *[1] * (4 - axis % 4 - len(shape)))
    assert distance(from_onnx(data, "aligned"), [x], [x * aligned]) < CLOSE


@pytest.mark.parametrize(
    ("op", "function"),
    {"Add": np.add, "Div": np.divide, "Greater": np.greater, "Less": np.less, "Pow": np.power, "Sub": np.subtract}.items(),
)
def test_each_op_of_two_operands_is_aligned_before_opset_7(op: str, function: Any) -> None:
    other = np.float32([2]) if op == "Pow" else np.abs(floats(CONV[1])) + np.float32(0.5)
    nodes = [(op, ("x", "c"), ("o",), {"axis": 1, "broadcast": 1}), ("Cast", ("o",), ("y",), {"to": "FLOAT"})]
    expected = np.asarray(function(X, other[:, None, None]), np.float32)
    assert distance(from_onnx(model((nodes, {"x": CONV}, {"c": other}), opset=5), op), [X], [expected]) < CLOSE


def test_the_shape_of_a_reshape_of_opset_1_is_known() -> None:
    bias = floats(4, 1, 1)
    nodes = [("Reshape", ("c",), ("r",), {"shape": [4]}), ("Add", ("x", "r"), ("y",), {"axis": 1, "broadcast": 1})]
    x = floats(*CONV)
    assert distance(from_onnx(model((nodes, {"x": CONV}, {"c": bias}), opset=1), "reshaped"), [x], [x + bias]) < CLOSE


def test_nodes_may_be_in_any_order() -> None:
    nodes = [("Add", ("t", "r"), ("y",), {}), ("Tanh", ("r",), ("t",), {}), ("Relu", ("x",), ("r",), {})]
    x = floats(1, 4)
    r = np.maximum(x, 0)
    for order in (nodes, nodes[::-1], [nodes[1], nodes[0], nodes[2]]):
        assert distance(from_onnx(model((order, {"x": (1, 4)}, {})), "any order"), [x], [np.tanh(r) + r]) < CLOSE


def split_in_two(location: str, **where: int) -> tuple[bytes, bytes]:
    """Return a model and the file that holds its weights."""
    made = onnx.load_from_string(model(one("Gemm", 1, 12, given=[floats(12, 7)])))
    tensor = made.graph.initializer[0]
    weights = bytes(8) + tensor.raw_data
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": 8, "length": 12 * 7 * 4, **where}.items():
        tensor.external_data.add(key=key, value=str(value))
    return made.SerializeToString(), weights


def test_constants_are_read_from_a_file_beside_the_model(tmp_path: Path) -> None:
    data, weights = split_in_two("net.onnx.data")
    (tmp_path / "net.onnx").write_bytes(data)
    (tmp_path / "net.onnx.data").write_bytes(weights)
    x = floats(1, 12)
    expected = x @ np.frombuffer(weights[8:], np.float32).reshape(12, 7)
    for graph in (from_onnx(data, "net", {"net.onnx.data": weights}.__getitem__), read(tmp_path / "net.onnx").original):
        assert distance(graph, [x], [expected]) < CLOSE


@pytest.mark.parametrize(
    ("location", "where", "message"),
    [
        ("/etc/hostname", {}, "is stored in the file '/etc/hostname'; put it beside the .onnx file"),
        ("../w.data", {}, "is stored in the file '../w.data'; put it beside"),
        ("..", {}, "is stored in the file '..'; put it beside"),
        ("", {}, "is stored in the file ''; put it beside"),
        ("link.data", {}, "link.data' is a link; put it beside"),
        ("missing.data", {}, "No such file or directory; put it beside"),
        ("w.data", {"offset": 12}, "does not match the file 'w.data' in offset or length"),
        ("w.data", {"offset": -4}, "does not match the file 'w.data' in offset or length"),
        ("w.data", {"length": 4}, "does not match the file 'w.data' in offset or length"),
    ],
)
def test_weights_outside_of_the_folder_of_the_model_are_refused(
    location: str, where: dict[str, int], message: str, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    data, weights = split_in_two(location, **where)
    (folder / "net.onnx").write_bytes(data)
    for path in (folder / "w.data", tmp_path / "w.data"):
        path.write_bytes(weights)
    (folder / "link.data").symlink_to(tmp_path / "w.data")
    with pytest.raises(CompileError) as error:
        read(folder / "net.onnx")
    assert message in str(error.value)


def with_functions(functions: dict[str, list[str]]) -> bytes:
    """Return a model that calls `f0`; `functions` maps each function to the functions or ops that it calls in turn."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ours", 1)]
    made = []
    for name, called in functions.items():
        names = ["a", *(f"t{index}" for index in range(len(called) - 1)), "b"]
        nodes = [
            helper.make_node(op, [names[index]], [names[index + 1]], domain="ours" if op in functions else "")
            for index, op in enumerate(called)
        ]
        made.append(helper.make_function("ours", name, ["a"], ["b"], nodes, opsets))
    node = helper.make_node("f0", ["x"], ["y"], domain="ours")
    edges = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    graph = helper.make_graph([node], "calls", edges[:1], edges[1:])
    return bytes(helper.make_model(graph, functions=made, opset_imports=opsets, ir_version=8).SerializeToString())


def test_functions_of_the_file_are_inlined() -> None:
    graph = from_onnx(with_functions({"f0": ["Relu", "f1", "f1"], "f1": ["Tanh", "Neg"]}), "calls")
    x = floats(1, 4)
    assert distance(graph, [x], [-np.tanh(-np.tanh(np.maximum(x, 0)))]) < CLOSE


@pytest.mark.parametrize(
    "functions",
    [
        {"f0": ["f0"]},
        {"f0": ["f1", "Relu"], "f1": ["f0"]},
        {f"f{i}": [f"f{i + 1}"] * 2 for i in range(40)} | {"f40": ["Relu"]},
        {"f0": ["Relu"] * 5000},
    ],
    ids=["itself", "each other", "a tree of calls", "one of many nodes"],
)
def test_recursive_functions_are_refused(functions: dict[str, list[str]]) -> None:
    with pytest.raises(CompileError, match="the graph has more than 4,096 nodes"):
        from_onnx(with_functions(functions), "calls")


@pytest.mark.parametrize(
    "stride, dilation, padding", [(1, 1, (1, 1)), (1, 2, (2, 2)), (1, 3, (3, 3)), (2, 2, (1, 2)), (3, 1, (0, 0))]
)
@pytest.mark.parametrize("end", ["UPPER", "LOWER"])
def test_same_padding_counts_the_dilated_kernel(end: str, stride: int, dilation: int, padding: tuple[int, int]) -> None:
    """An axis of 12 has ceil(12 / stride) windows of 2 * dilation + 1 pixels. An odd pixel of padding is added at `end`."""
    window = {"strides": [stride, 1], "dilations": [dilation, 1]}
    before, after = padding if end == "UPPER" else padding[::-1]
    given, x = [floats(3, 2, 3, 3)], floats(1, 12, 5, 2)
    same = from_onnx(model(one("Conv", 1, 2, 12, 5, given=given, auto_pad=f"SAME_{end}", **window)), "same")
    explicit = from_onnx(model(one("Conv", 1, 2, 12, 5, given=given, pads=[before, 1, after, 1], **window)), "same")
    (found,), (expected,) = (ops.run(graph, {"x": x}).values() for graph in (same, explicit))
    assert found.shape == (1, -(-12 // stride), 5, 3) and np.array_equal(found, expected)
