"""Removal of transposes at inputs and outputs, and verification with the reference afterwards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases.graphs import Net

from tinyweave import api
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError, Graph, Op, Tensor, rebuild, verify
from tinyweave.passes.strip_edges import strip_transposes


def turned(channels: int = 3, size: int = 6) -> Graph:
    """Return a network like those of PyTorch, with channels first at its edges and channels last inside."""
    net = Net(size, size, channels)
    same = {"padding": ((1, 1), (1, 1)), "stride": (1, 1), "activation": "none"}
    body = net.op("max_pool_2d", ("image",), (1, size, size, channels), kernel=(3, 3), **same)
    graph = net.finish("turned", body)
    quant, shape = graph.tensors["image"].quant, graph.tensors[body].shape
    more = {
        "outside": Tensor("outside", (1, channels, size, size), "int8", quant),
        "result": Tensor("result", (1, shape[3], *shape[1:3]), "int8", graph.tensors[body].quant),
        "last": Tensor("last", (4,), "int32", None, np.array([0, 2, 3, 1], np.int32), "constant"),
        "first": Tensor("first", (4,), "int32", None, np.array([0, 3, 1, 2], np.int32), "constant"),
    }
    ops = (
        Op("to_last", "transpose", ("outside", "last"), ("image",)),
        graph.ops[0],
        Op("to_first", "transpose", (body, "first"), ("result",)),
    )
    whole = replace(graph, tensors=graph.tensors | more)
    return verify(rebuild(whole, ops=ops, inputs=("outside",), outputs=("result",)))


def test_transposes_at_inputs_and_outputs_are_removed() -> None:
    before = turned()
    after, _ = strip_transposes(before)
    assert [op.kind for op in after.ops] == ["max_pool_2d"]
    assert after.tensors[after.inputs[0]].shape == (1, 6, 6, 3) and after.tensors[after.outputs[0]].shape == (1, 6, 6, 3)
    kept = replace(before, outputs=("result", "image"))
    assert strip_transposes(kept)[0].inputs == before.inputs, "who wants to see the turned input gets it"
    other = np.array([0, 3, 2, 1], np.int32)
    twisted = replace(before, tensors=before.tensors | {"last": replace(before.tensors["last"], data=other)})
    assert strip_transposes(twisted)[0].inputs == before.inputs


@pytest.mark.litert
@pytest.mark.parametrize("stream", [False, True])
def test_litert_gets_channels_first_inputs_after_the_removal(stream: bool, tmp_path: Path) -> None:
    path = tmp_path / "turned.tflite"
    path.write_bytes(to_tflite(turned()))
    model = api.load(path, layout="nhwc")
    assert model.graph.tensors[model.graph.inputs[0]].shape == (1, 6, 6, 3)
    result = api.verify_plan(model, api.plan(model, stream_inputs=stream), api.ProofOptions(count=4), core=None)
    assert result.ok and result.reference.startswith("LiteRT"), result.first_difference
    if stream:
        with pytest.raises(CompileError, match="--layout nhwc"):
            api.plan(api.load(path), stream_inputs=True)
