"""ONNX files of a few nodes, with float inputs and constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tinyweave import ops
from tinyweave.importers.onnx import from_onnx
from tinyweave.ir import CompileError, Graph

RNG = np.random.default_rng(0)
Node = tuple[str, Sequence[str], Sequence[str], dict[str, Any]]
Constants = dict[str, Any]
Case = tuple[list[Node], dict[str, Sequence[int | str]], Constants]


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def model(case: Case, outputs: Sequence[str] = ("y",), opset: int = 18) -> bytes:
    """The file of a few nodes (op, inputs, outputs, attributes) with float inputs and constants."""
    nodes, inputs, constants = case
    arrays = {name: np.asarray(value) for name, value in constants.items()}
    graph = helper.make_graph(
        [helper.make_node(op, given, made, **attributes) for op, given, made, attributes in nodes],
        "case",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return bytes(made.SerializeToString())


def one(op: str, *shape: int, outputs: Sequence[str] = ("y",), given: Sequence[Any] = (), **attributes: Any) -> Case:
    """An op on one map `x`, whose other inputs are constants; None for one left out."""
    constants = {f"c{index}": value for index, value in enumerate(given) if value is not None}
    names = ["x", *("" if value is None else f"c{index}" for index, value in enumerate(given))]
    return [(op, names, outputs, attributes)], {"x": shape}, constants


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def check_refused(data: bytes, message: str) -> None:
    """A file ends as one error of one line that says this."""
    with pytest.raises(CompileError) as error:
        from_onnx(data, "net")
    assert message in str(error.value) and "\n" not in str(error.value)


def lying(value: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """A value [n, c, h, w] as a tensor of this shape holds it: maps channels last, what has three axes as it fits."""
    moved = np.moveaxis(value, 1, -1) if value.ndim > 2 else value
    possible = [moved, value] if value.ndim > 3 else [value, moved, moved[None]]
    fitting = [each for each in possible if each.shape == tuple(shape)]
    assert fitting, (value.shape, shape)
    return np.ascontiguousarray(fitting[0])


def distance(graph: Graph, inputs: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """Return how far the graph's outputs are from those expected, as a share of their range, or size where all are alike."""
    given = {name: lying(x, graph.tensors[name].shape) for name, x in zip(graph.inputs, inputs, strict=True)}
    worst = 0.0
    for (name, value), wanted in zip(ops.run(graph, given).items(), expected, strict=True):
        found = lying(wanted, graph.tensors[name].shape)
        worst = max(worst, float(np.abs(value - found).max() / max(np.ptp(found), np.abs(found).max(), 1e-6)))
    return worst


def run_by_runtime(data: bytes, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Return the outputs that ONNX Runtime computes."""
    runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install onnxruntime")
    return list(runtime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, inputs))
