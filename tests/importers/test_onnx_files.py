"""ONNX files of opsets below 13, with nodes in any order, with functions, and with weights in a second file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install '.[onnx]'")

from cases.from_onnx import Case, check_refused, distance, floats, model, one, run_by_runtime  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402

from tinyweave.api import read  # noqa: E402
from tinyweave.importers import onnx_upgrade as upgrade  # noqa: E402
from tinyweave.importers.onnx import OLDEST_OPSET, from_onnx  # noqa: E402
from tinyweave.ir import CompileError  # noqa: E402

CLOSE = 1e-5  # of the output's range
CONV = (1, 4, 9, 8)
OLD: dict[str, tuple[int, Case]] = {
    "batch-norm-7": (7, one("BatchNormalization", *CONV, given=[floats(4), floats(4), floats(4), np.abs(floats(4)) + 0.5])),
    "clip-6": (6, one("Clip", *CONV, min=-0.3, max=0.5)),
    "dropout-7": (7, ([("Dropout", ("x",), ("d",), {}), ("Tanh", ("d",), ("y",), {})], {"x": CONV}, {})),
    "pad-2": (2, one("Pad", *CONV, pads=[0, 0, 1, 2, 0, 0, 2, 1], value=0.5)),
    "slice-9": (9, one("Slice", *CONV, starts=[1, -5], ends=[4, -1], axes=[1, 3])),
    "softmax-11": (11, one("Softmax", 1, 4, 5, axis=1)),
    "squeeze-11": (11, one("Squeeze", 1, 12, 1, 1, axes=[2, 3])),
    "sum-11": (11, one("ReduceSum", *CONV, axes=[2, 3], keepdims=0)),
    "upsample-9": (9, one("Upsample", *CONV, given=[np.array([1, 1, 2, 3], np.float32)])),
}


@pytest.mark.parametrize("name", OLD)
def test_a_file_of_an_old_opset_computes_what_onnx_runtime_does(name: str) -> None:
    opset, case = OLD[name]
    data = model(case, opset=opset)
    x = floats(*next(iter(case[1].values())))
    assert distance(from_onnx(data, name), [x], run_by_runtime(data, {"x": x})) < CLOSE


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize(
    ("batch", "shape", "axis"), [(1, (4,), 1), (1, (4, 9), 1), (1, (9,), 2), (4, (4,), 1), (1, (9, 8), -2)]
)
def test_an_operand_is_aligned_at_its_axis_before_opset_7(opset: int, batch: int, shape: tuple[int, ...], axis: int) -> None:
    """ONNX Runtime lacks these opsets. The converter alone would align [4] with the batch."""
    x, other = floats(batch, *CONV[1:]), floats(*shape)
    data = model(one("Mul", *x.shape, given=[other], axis=axis, broadcast=1), opset=opset)
    aligned = other.reshape(*shape, *[1] * (4 - axis % 4 - len(shape)))
    assert distance(from_onnx(data, "aligned"), [x], [x * aligned]) < CLOSE


def test_the_shape_of_a_reshape_of_opset_1_is_known() -> None:
    bias = floats(4, 1, 1)
    nodes = [("Reshape", ("c",), ("r",), {"shape": [4]}), ("Add", ("x", "r"), ("y",), {"axis": 1, "broadcast": 1})]
    x = floats(*CONV)
    assert distance(from_onnx(model((nodes, {"x": CONV}, {"c": bias}), opset=1), "reshaped"), [x], [x + bias]) < CLOSE


@pytest.mark.parametrize(
    ("child", "message"),
    [
        ("while True: pass", "takes longer than 1 s"),
        ("import os; os.abort()", "it crashed"),
        (upgrade.CHILD.replace("import onnx,", "bytes(1 << 33); import onnx,"), "MemoryError"),
    ],
    ids=["endless", "crash", "memory"],
)
def test_a_conversion_process_that_fails_or_takes_too_long_is_refused(
    child: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upgrade, "CHILD", child)
    monkeypatch.setattr(upgrade, "MAX_SECONDS", 1 if message.startswith("takes") else 60)
    check_refused(model(one("Relu", 1, 4), opset=9), f"cannot convert it: {message}; export it again with opset {OLDEST_OPSET}")


def test_a_file_of_an_old_opset_with_weights_in_another_file_is_refused() -> None:
    made = onnx.load_from_string(model(one("Gemm", 1, 12, given=[floats(12, 7)]), opset=9))
    made.graph.initializer[0].external_data.add(key="location", value="net.onnx.data")
    check_refused(made.SerializeToString(), "the file has opset 9 and weights in another file")


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
