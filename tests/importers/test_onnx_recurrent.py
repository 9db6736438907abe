"""ONNX's GRU, RNN and LSTM: each direction, state and activation computes what ONNX Runtime does or is refused in one line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs onnx: pip install '.[onnx]'")

from cases.from_onnx import Node, check_refused, floats, ints, model, run_by_runtime
from onnx import ModelProto, helper, numpy_helper

from tinyweave import ops
from tinyweave.importers.onnx import from_onnx

TIME, DEPTH, CELLS = 6, 5, 4
GATES = {"GRU": 3, "RNN": 1, "LSTM": 4}
CLOSE = 1e-5


def network(
    kind: str,
    state: str = "none",
    output: str = "y",
    bias: bool = True,
    *,
    steps: int = TIME,
    batch: int = 1,
    **attributes: Any,
) -> bytes:
    """A recurrent node whose output is the sequence, [steps, batch, directions * cells], or the final hidden state."""
    count, rows = 1 + (attributes.get("direction") == "bidirectional"), GATES[kind] * CELLS
    constants = {"w": 0.5 * floats(count, rows, DEPTH), "r": 0.5 * floats(count, rows, CELLS)}
    constants |= {"b": floats(count, 2 * rows)} if bias else {}
    inputs: dict[str, tuple[int, ...]] = {"x": (steps, batch, DEPTH)}
    given = {"none": "", "zero": "h", "constant": "h", "input": "h"}[state]
    if state == "input":
        inputs["h"] = (count, batch, CELLS)
    elif given:
        constants["h"] = floats(count, batch, CELLS) * (state == "constant")
    names = ["x", "w", "r", "b" if bias else "", "", given]
    nodes: list[Node] = [(kind, names, ("s", "y" if output == "h" else ""), {"hidden_size": CELLS, **attributes})]
    if output == "y":
        nodes += [("Transpose", ("s",), ("t",), {"perm": [0, 2, 1, 3]}), ("Reshape", ("t", "shape"), ("y",), {})]
        constants["shape"] = ints(steps, batch, -1)
    return model((nodes, inputs, constants))


CASES: dict[str, bytes] = {
    **{
        f"{kind}-{direction}-{output}": network(kind, output=output, direction=direction)
        for kind in GATES
        for direction in ("forward", "reverse", "bidirectional")
        for output in ("y", "h")
    },
    **{f"GRU-state-{state}": network("GRU", state, direction="bidirectional") for state in ("zero", "constant", "input")},
    **{f"GRU-after-{state}": network("GRU", state, linear_before_reset=1) for state in ("none", "input")},
    "GRU-without-bias": network("GRU", bias=False),
    "GRU-one-step": network("GRU", "input", steps=1),
    "RNN-relu": network("RNN", direction="bidirectional", activations=["Relu", "Relu"]),
    "RNN-state": network("RNN", "input", output="h"),
    "LSTM-zero": network("LSTM", "zero", output="h"),
    "LSTM-state": network("LSTM", "input", output="h"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_recurrent_node_computes_what_onnx_runtime_does(case: str) -> None:
    graph, rng = from_onnx(CASES[case], "net"), np.random.default_rng(3)
    arrays = {name: rng.normal(size=graph.tensors[name].shape).astype(np.float32) for name in graph.inputs}
    shaped = {"x": arrays["x"].reshape(-1, 1, DEPTH)} | ({"h": arrays["h"].reshape(-1, 1, CELLS)} if "h" in arrays else {})
    (expected,), (computed,) = run_by_runtime(CASES[case], shaped), ops.run(graph, arrays).values()
    assert computed.size == expected.size > 3
    assert np.abs(computed.ravel() - expected.ravel()).max() < CLOSE


def with_layout_1(data: bytes) -> bytes:
    """Return the file of a network of this page in which the batch is the first axis of the sequence and of the states."""
    file = ModelProto.FromString(data)
    file.graph.node[0].attribute.append(helper.make_attribute("layout", 1))
    for value in file.graph.input:
        one, two, _ = value.type.tensor_type.shape.dim
        one.dim_value, two.dim_value = two.dim_value, one.dim_value
    for tensor in file.graph.initializer:
        if tensor.name == "h":
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).swapaxes(0, 1), "h"))
    for node in file.graph.node[1:]:
        node.input[0] = "s" if node.op_type == "Reshape" else node.input[0]
    return bytes(file.SerializeToString())


@pytest.mark.parametrize(
    "case", ["GRU-bidirectional-h", "GRU-state-constant", "GRU-state-input", "LSTM-state", "LSTM-forward-y"]
)
def test_layout_1_computes_the_same(case: str) -> None:
    """ONNX Runtime refuses layout 1, so the same network with layout 0 is the reference."""
    one, two = (from_onnx(data, "net") for data in (CASES[case], with_layout_1(CASES[case])))
    rng = np.random.default_rng(3)
    arrays = {name: rng.normal(size=one.tensors[name].elements).astype(np.float32) for name in one.inputs}
    outputs = [
        next(iter(ops.run(graph, {name: x.reshape(graph.tensors[name].shape) for name, x in arrays.items()}).values()))
        for graph in (one, two)
    ]
    assert np.array_equal(*(each.ravel() for each in outputs)) and outputs[0].size > 3


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (network("GRU", clip=1.0), "it has clip, which is not supported"),
        (network("GRU", layout=2), "its layout 2 is unknown; 0 and 1 are supported"),
        (
            network("GRU", activations=["Sigmoid", "Relu"]),
            "its activations are Sigmoid, Relu; only Sigmoid, Tanh are supported",
        ),
        (network("RNN", activations=["Sigmoid"]), "its activations are Sigmoid; only Tanh are supported"),
        (network("RNN", direction="bidirectional", activations=["Tanh", "Relu"]), "its activations are Tanh, Relu"),
        (network("GRU", direction="both"), "its direction both is unknown"),
    ],
)
def test_other_options_are_refused(data: bytes, message: str) -> None:
    check_refused(data, message)
