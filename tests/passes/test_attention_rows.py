"""Attention on maps of rows: the same bytes, a head's ops one after another, and other networks stay as they are."""

from __future__ import annotations

import pytest
from fuzz.attention import random_attention
from passes.layers import random_inputs

from tinyweave import ops
from tinyweave.ir import Graph, verify
from tinyweave.passes.attention.attention_rows import attention_rows


def same_bytes(graph: Graph, after: Graph, seed: int) -> bool:
    inputs = random_inputs(graph, seed)
    old, new = ops.run(graph, inputs), ops.run(ops.check(verify(after)), inputs)
    assert [value.tobytes() for value in old.values()] == [value.tobytes() for value in new.values()]
    return True


@pytest.mark.parametrize("seed", range(60))
def test_random_attention_keeps_its_bytes(seed: int) -> None:
    graph = random_attention(seed)
    after, tensors = attention_rows(graph)
    assert after is not graph and tensors == {} and same_bytes(graph, after, seed)
    spread = [[x.shape for x in after.inputs_of(op) if x is not None] for op in after.ops if op.kind == "softmax"]
    assert all(shape[0] == shape[2] == 1 for (shape,) in spread)
