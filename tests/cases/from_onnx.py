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

CONV = (1, 4, 9, 8)  # the shape of a map
RNG = np.random.default_rng(0)
Node = tuple[str, Sequence[str], Sequence[str], dict[str, Any]]
Constants = dict[str, Any]
Case = tuple[list[Node], dict[str, Sequence[int | str]], Constants]


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def model(case: Case, outputs: Sequence[str] = ("y",), opset: int = 18) -> bytes:
    """Return an ONNX file of a few nodes (op, inputs, outputs, attributes) with float inputs and constants."""
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
    """Return a case of an op on a map `x`; other inputs are constants, None for an absent one."""
    constants = {f"c{index}": value for index, value in enumerate(given) if value is not None}
    names = ["x", *("" if value is None else f"c{index}" for index, value in enumerate(given))]
    return [(op, names, outputs, attributes)], {"x": shape}, constants


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def check_refused(data: bytes, message: str) -> None:
    """Assert that a file is refused with a one-line error that contains this message."""
    with pytest.raises(CompileError) as error:
        from_onnx(data, "net")
    assert message in str(error.value) and "\n" not in str(error.value)


def in_layout(value: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Return a value [n, c, h, w] in the layout of a tensor: channels last; three axes in the order that fits the shape."""
    moved = np.moveaxis(value, 1, -1) if value.ndim > 2 else value
    possible = [moved, value] if value.ndim > 3 else [value, moved, np.expand_dims(moved, int(moved.ndim > 2))]
    fitting = [each for each in possible if each.shape == tuple(shape)]
    assert fitting, (value.shape, shape)
    return np.ascontiguousarray(fitting[0])


def distance(graph: Graph, inputs: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """Return the error of the graph's outputs relative to the range of the expected ones (to their size if constant)."""
    given = {name: in_layout(x, graph.tensors[name].shape) for name, x in zip(graph.inputs, inputs, strict=True)}
    worst = 0.0
    for (name, value), wanted in zip(ops.run(graph, given).items(), expected, strict=True):
        found, value = (each.astype(np.float64) for each in (in_layout(wanted, graph.tensors[name].shape), value))
        worst = max(worst, float(np.abs(value - found).max() / max(np.ptp(found), np.abs(found).max(), 1e-6)))
    return worst


def run_by_runtime(data: bytes, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Return the outputs that ONNX Runtime computes."""
    runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install onnxruntime")
    return list(runtime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, inputs))
