"""ONNX files of opsets below 13, and files whose nodes are in any order, compute what ONNX Runtime does."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install '.[onnx]'")

from cases.from_onnx import Case, check_refused, distance, floats, model, one, run_by_runtime  # noqa: E402

from tinyweave.importers import onnx_upgrade as upgrade  # noqa: E402
from tinyweave.importers.onnx import OLDEST_OPSET, from_onnx  # noqa: E402

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
