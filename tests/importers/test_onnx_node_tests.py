"""Models of ONNX's node tests compute the expected outputs or are refused in one line."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install '.[onnx]'")

from cases.from_onnx import distance  # noqa: E402
from importers.test_onnx import BY_RUNTIME, CASES  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.backend.test.loader import load_model_tests  # noqa: E402

from tinyweave.importers.onnx import from_onnx  # noqa: E402
from tinyweave.importers.onnx_ops import MAPPED, OPS  # noqa: E402
from tinyweave.importers.onnx_ops.folded import DTYPES, FOLDED  # noqa: E402
from tinyweave.importers.unsupported import Unsupported  # noqa: E402
from tinyweave.ir import CompileError  # noqa: E402
from tinyweave.quantize.convert import quantised  # noqa: E402

CLOSE = 1e-5  # of the output's range


def single_op_models() -> list[tuple[str, Any, list[np.ndarray], list[np.ndarray]]]:
    """Yield ONNX's node tests of one op on floats of fixed shapes: (name, model, inputs, outputs)."""
    found = []
    for test in load_model_tests(kind="node"):
        made = test.model
        if made is None or len(made.graph.node) != 1 or not made.graph.input or made.graph.node[0].domain:
            continue
        values = made.graph.input
        fixed = all(dim.HasField("dim_value") for value in values for dim in value.type.tensor_type.shape.dim)
        if not fixed or values[0].type.tensor_type.elem_type != TensorProto.FLOAT:
            continue
        inputs, outputs = ([_array(value) for value in side] for side in test.data_sets[0])
        if all(array is not None and array.dtype.kind in "fiub" for array in (*inputs, *outputs)):
            found.append((test.name, made, inputs, outputs))
    return found


def _array(value: Any) -> np.ndarray | None:
    if isinstance(value, (TensorProto, np.ndarray, np.generic)):
        return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)
    return None


# with align_corners, ONNX Runtime and torch divide by the number of output pixels, ONNX's reference by a fraction of it
CORNERS = {f"test_resize_downsample_scales_{mode}_align_corners" for mode in ("linear", "cubic")}
# the test has four digits of each output
OF_FOUR_DIGITS = {"test_averagepool_2d_ceil_last_window_starts_on_pad": 5e-4}
SEVERAL_MAPS = ("Add", "Concat", "Max", "Mean", "Min", "Mul", "Sub", "Sum")  # all but one input of other ops become constants


@pytest.mark.filterwarnings("ignore")
def test_onnx_node_tests_give_the_expected_outputs_or_are_refused() -> None:
    """Each supported kind passes at least once, here or among CASES."""
    right, refused = Counter[str](), Counter[str]()
    for name, made, inputs, outputs in single_op_models():
        op = made.graph.node[0].op_type
        kept = len(inputs) if op in SEVERAL_MAPS else 1
        constants = list(zip([value.name for value in made.graph.input], inputs, strict=False))[kept:]
        del made.graph.input[kept:]
        made.graph.initializer.extend(numpy_helper.from_array(array, label) for label, array in constants)
        try:
            graph = from_onnx(made.SerializeToString(), name)
        except CompileError as error:
            assert "\n" not in str(error) and "an unsupported form" not in str(error), (name, error)
            refused[op] += 1
            continue
        if name in CORNERS:
            continue
        if op == "QuantizeLinear":  # ONNX rounds halves to even, TFLite away from 0
            steps = quantised(inputs[0], graph.tensors[graph.inputs[0]].quant).astype(int)
            assert np.abs(steps + (128 if outputs[0].dtype == np.uint8 else 0) - outputs[0]).max() <= 1, name
            right[op] += 1
            continue
        assert distance(graph, inputs[:kept], outputs) < OF_FOUR_DIGITS.get(name, CLOSE), name
        right[op] += 1
    assert sum(right.values()) >= 180, right
    tried = {node[0] for nodes, _, _ in (CASES | BY_RUNTIME).values() for node in nodes}
    # node tests of GRU and LSTM have a batch, the architectures cover both; test_tokens.py covers OneHot
    assert not {*MAPPED} - {*right} - tried - {"GRU", "LSTM", "OneHot", "SimplifiedLayerNormalization"}
    print(f"{sum(right.values())} of {sum(right.values()) + sum(refused.values())} come out right, the others are refused")


# constant folding: the inputs of the node tests are made constant

ANY: Any = None  # a Builder, which constants do not need
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
    assert refused.keys() <= {"Cast", "ReduceMax", "ReduceMin", "ScatterElements", "ScatterND"}
