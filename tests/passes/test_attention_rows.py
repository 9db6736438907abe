"""Attention on maps of rows: the same bytes, a head's ops one after another, and other networks stay as they are."""

from __future__ import annotations

import numpy as np
import pytest
from fuzz.attention import Builder, random_attention
from passes.layers import random_inputs

from tinyweave import ops
from tinyweave.ir import Graph, fingerprint, verify
from tinyweave.passes.attention.attention_rows import attention_rows

ROWS, CHANNELS = 7, 6


def rewritten(graph: Graph, seed: int = 0) -> Graph:
    """Return the graph after the pass, which must not change its outputs."""
    after, tensors = attention_rows(graph)
    inputs = random_inputs(graph, seed)
    old, new = ops.run(graph, inputs), ops.run(ops.check(verify(after)), inputs)
    assert tensors == {} and list(old) == list(new)
    assert [value.tobytes() for value in old.values()] == [value.tobytes() for value in new.values()]
    return after


def kinds(graph: Graph) -> list[str]:
    return [op.kind for op in graph.ops]


@pytest.mark.parametrize("seed", range(60))
def test_random_attention_keeps_its_bytes_and_has_no_copies(seed: int) -> None:
    after = rewritten(random_attention(seed), seed)
    assert not {"slice", "transpose"}.intersection(kinds(after))
    shapes = {after.input(op).shape[::2] for op in after.ops if op.kind == "softmax"}
    assert shapes == {(1, 1)}


def test_two_heads_that_share_dense_layers_and_a_softmax_become_two_chains() -> None:
    """Of each dense layer, a head computes its own channels: values and keys, of which it needs all rows, then queries."""
    b = Builder(0)
    x = b.input(ROWS, CHANNELS)
    q, k, v = (b.dense(x, 4) for _ in range(3))
    heads = [[b.slice(m, (0, 0, at), (1, ROWS, 2)) for m in (q, k, v)] for at in (0, 2)]
    scores = b.join([b.product(a, c, turned=True) for a, c, _ in heads], 0)
    weights = b.softmax(b.masked(scores))
    parts = [b.slice(weights, (at, 0, 0), (1, ROWS, ROWS)) for at in (0, 1)]
    outs = [b.product(part, head[2], turned=False) for part, head in zip(parts, heads, strict=True)]
    after = rewritten(b.finish(b.join(outs, 2)))
    head = ["fully_connected", "reshape", "fully_connected", "reshape", "fully_connected", "batch_matmul"]
    ends = ["add", "softmax", "batch_matmul"]
    chains = [*head, *ends, *head, "quantize", *ends, "quantize"]
    assert kinds(after) == ["reshape", *chains, "concatenation", "reshape"]
    dense = [after.output(op).shape for op in after.ops if op.kind == "fully_connected"]
    assert dense == [(1, ROWS, 1, 2)] * 6


def test_channels_that_ops_read_in_overlapping_ranges_are_computed_together() -> None:
    """A head reads the channels 0 and 1 of the queries, and an output all four; a slice takes them from one dense layer."""
    b = Builder(0)
    x = b.input(ROWS, CHANNELS)
    q, k = b.dense(x, 4), b.dense(x, 2)
    scores = b.product(b.slice(q, (0, 0, 0), (1, ROWS, 2)), k, turned=True)
    after = rewritten(b.finish(b.product(b.softmax(scores), k, turned=False), b.g.emit("relu", [q], {}, b.near(1 / 16))))
    assert kinds(after).count("fully_connected") == 2 and kinds(after).count("slice") == 1


def test_ops_stay_if_their_outputs_are_needed_in_a_form_that_no_rows_have() -> None:
    """The network also returns the scores of both heads, one after the other, so their concatenation stays."""
    b = Builder(0)
    x = b.input(ROWS, CHANNELS)
    products = [b.product(b.dense(x, 3), b.dense(x, 3), turned=True) for _ in range(2)]
    scores = b.join(products, 0)
    heads = [b.product(b.softmax(each), x, turned=False) for each in products]
    after = rewritten(b.finish(scores, b.join(heads, 2)))
    shapes = {after.output(op).shape for op in after.ops if op.kind == "concatenation"}
    assert shapes == {(2, ROWS, ROWS), (1, ROWS, 1, 2 * CHANNELS)}


def test_networks_without_attention_heads_stay_as_they_are() -> None:
    """The sum of squares in a layer norm is a product of two computed vectors, but no attention."""
    b = Builder(0)
    graph = b.finish(b.mlp(b.norm(b.input(ROWS, CHANNELS))))
    assert fingerprint(attention_rows(graph)[0]) == fingerprint(graph)


def test_ops_that_are_not_connected_with_a_head_stay_as_they_are() -> None:
    b = Builder(0)
    x, y = b.input(ROWS, CHANNELS), b.input(ROWS, CHANNELS)
    graph = b.finish(b.dense(b.head(x, x, 4), 2), b.mlp(b.norm(y)))
    after = rewritten(graph)
    other = graph.ops[graph.producer[graph.outputs[0]] + 1 :]
    assert [op for op in other if op not in after.ops] == []
    assert [op.outputs[0] for op in other if graph.output(op).shape != after.output(op).shape] == []


def test_tensors_of_other_ops_get_their_shapes_before_all_rows() -> None:
    """The second input is read last, by the residual sum; its reshape would divide the stage."""
    b = Builder(0)
    x, y = b.input(ROWS, CHANNELS), b.input(ROWS, CHANNELS)
    after = rewritten(b.finish(b.binary("add", b.head(x, x, CHANNELS), y, 1 / 32)))
    assert kinds(after)[:3] == ["reshape", "reshape", "fully_connected"]


def test_ops_that_mix_rows_or_channels_stay() -> None:
    """One sum swaps channels, one repeats rows, and space_to_batch_nd adds a row of padding."""
    b = Builder(0)
    x = b.input(ROWS, CHANNELS)
    q = b.dense(x, 4)
    scores = b.product(q, b.dense(x, 4), turned=True)
    halves = [b.slice(q, (0, 0, at), (1, ROWS, 2)) for at in (2, 0)]
    quant = b.g.tensors[q].quant
    swapped = b.g.emit("concatenation", list(halves), {"axis": 2, "activation": "none"}, quant)
    two = b.g.constant("two", b.g.numpy.integers(-128, 128, (2, ROWS, 4), dtype=np.int8), b.near(1 / 64))
    block, padding = (
        b.g.constant(role, np.array(values, np.int32)) for role, values in (("b", [1, 1]), ("p", [[1, 0], [0, 0]]))
    )
    padded = b.g.emit("space_to_batch_nd", [b.reshape(q, 1, ROWS, 1, 4), block, padding], {}, quant)
    head = b.product(b.softmax(scores), q, turned=False)
    sums = b.binary("add", q, swapped, 1 / 16), b.slice(b.binary("add", q, two, 1 / 16), (0, 0, 0), (1, ROWS, 4))
    graph = b.finish(head, *sums, b.g.emit("relu", [padded], {}, quant))
    after = rewritten(graph)
    assert after.output(next(op for op in after.ops if op.kind == "softmax")).shape == (1, ROWS, 1, ROWS)


def test_a_table_is_not_divided_among_heads() -> None:
    """The table of 256 bytes has as many entries as the map has channels, of which a head reads a half."""
    b = Builder(0)
    x = b.input(ROWS, CHANNELS)
    table = b.g.constant("table", b.g.numpy.integers(-128, 128, 256, dtype=np.int8))
    bent = b.g.emit("lookup", [b.dense(x, 256), table], {}, b.near(1 / 32))
    q, k = (b.slice(bent, (0, 0, at), (1, ROWS, 128)) for at in (0, 128))
    after = rewritten(b.finish(b.product(b.softmax(b.product(q, k, turned=True)), x, turned=False)))
    tables = [after.input(op, 1).shape for op in after.ops if op.kind == "lookup"]
    assert tables == [(256,), (256,)]


def test_a_mask_gets_the_shape_of_the_scores() -> None:
    b = Builder(0)
    x = b.input(ROWS, CHANNELS)
    after = rewritten(b.finish(b.head(x, x, 4, causal=True)))
    (mask,) = (after.input(op, 1) for op in after.ops if op.kind == "add")
    assert mask.shape == (1, ROWS, 1, ROWS) and np.array_equal(mask.data[0, :, 0] == 0, np.tri(ROWS, dtype=bool))
