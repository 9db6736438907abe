"""Constant folding of ONNX ops, on ONNX's own node tests, whose inputs are made constant: outputs equal the expected ones."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.loader import load_model_tests

from tinyweave.importers.onnx_ops import OPS
from tinyweave.importers.onnx_ops.folded import DTYPES, FOLDED
from tinyweave.importers.unsupported import Unsupported

ANY: Any = None  # a Builder, which constants do not need
CLOSE = 1e-5
TYPES = {*DTYPES.values(), "float64"}


def as_python(value: Any) -> Any:
    """Return the value of an attribute as the importer passes it."""
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    return value.decode() if isinstance(value, bytes) else value


def arrays_of(values: Any) -> list[np.ndarray] | None:
    """Return the arrays of a node test, or None if one of them is no array of numbers that tinyweave has constants of."""
    found = [numpy_helper.to_array(each) if isinstance(each, TensorProto) else each for each in values]
    found = [np.asarray(each) if isinstance(each, np.generic) else each for each in found]
    usable = all(isinstance(each, np.ndarray) and each.dtype.name in TYPES for each in found)
    return found if usable else None


@pytest.mark.filterwarnings("ignore")
def test_folded_ops_give_the_outputs_of_onnx_node_tests() -> None:
    right, refused = Counter[str](), Counter[str]()
    for test in load_model_tests(kind="node"):
        if test.model is None or len(test.model.graph.node) != 1:
            continue
        (node,) = test.model.graph.node
        if node.op_type not in FOLDED or node.domain or "" in node.input:
            continue
        inputs, outputs = (arrays_of(side) for side in test.data_sets[0])
        if inputs is None or outputs is None or len(inputs) != len(node.input):
            continue
        attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        attributes = {name: as_python(value) for name, value in attributes.items()}
        try:
            found = OPS[node.op_type](ANY, *inputs, outputs=len(outputs), **attributes)
        except Unsupported:
            refused[node.op_type] += 1
            continue
        for values, expected in zip(found if isinstance(found, list) else [found], outputs, strict=True):
            assert values.shape == expected.shape, test.name
            assert values.dtype == (np.float32 if expected.dtype == np.float64 else expected.dtype), test.name
            assert np.allclose(values, expected, CLOSE, CLOSE, equal_nan=True), test.name
        right[node.op_type] += 1
    assert right.keys() == FOLDED.keys()
    assert sum(right.values()) > 400
    assert refused.keys() <= {"Cast", "GatherND", "ReduceMax", "ReduceMin", "ScatterND"}
