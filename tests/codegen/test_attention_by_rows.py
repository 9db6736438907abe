"""Attention in a fused stage: of the score matrix, one row is in memory at a time. Every output byte equals the reference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from codegen.emitted import prove
from fuzz.attention import Builder
from planning.stages import plan_in_stages

from tinyweave.ir import Graph
from tinyweave.planning import Plan, check
from tinyweave.planning.check import UnsoundPlanError
from tinyweave.planning.kernel_choice import KernelRule
from tinyweave.simulate import emulated

TIME, KEYS, CHANNELS = 13, 9, 5


def fused(graph: Graph, core: str) -> Plan:
    """Return a plan that computes keys and values first, then all other ops in one stage."""
    first = [i for i, op in enumerate(graph.ops) if op.kind == "reshape" or op.name in WHOLE]
    rest = tuple(i for i in range(len(graph.ops)) if i not in first)
    return plan_in_stages(graph, [*((i,) for i in first), rest], kernels=KernelRule(core))


WHOLE = ("fully_connected_1", "fully_connected_2")  # keys and values


def attention(*, crossing: bool, causal: bool) -> Graph:
    """Return a head with a residual sum; its keys have the shape (KEYS, CHANNELS) if it attends to a second input."""
    b = Builder(5, flat=True)
    x = b.input(TIME, CHANNELS)
    y = b.input(KEYS, CHANNELS) if crossing else x
    out = b.dense(b.head(x, y, 7, causal=causal), CHANNELS)
    return b.finish(b.binary("add", x, out, 1 / 32))


@pytest.mark.emulator
@pytest.mark.parametrize("core", ["", "cortex-m4", "cortex-m33", "cortex-m55"])
@pytest.mark.parametrize("crossing", [False, True], ids=["self", "cross"])
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
def test_attention_by_rows_equals_the_reference(core: str, crossing: bool, causal: bool, tmp_path: Path) -> None:
    if core and (reason := emulated.missing(core)):
        pytest.skip(reason[0])
    plan = fused(attention(crossing=crossing, causal=causal), core)
    assert plan.stages[-1].schedule is not None and set(plan.stages[-1].schedule.line_buffers.values()) == {1}
    prove(plan, tmp_path, (core,) if core else ("cortex-m4",))


@pytest.mark.parametrize("core", ["", "cortex-m4"])
def test_layer_norm_and_mlp_by_rows_equal_the_reference(core: str, tmp_path: Path) -> None:
    """The hidden map of the MLP, four times as wide as the network, is one row; so are all other maps inside the stage."""
    b = Builder(6, flat=True)
    x = b.input(TIME, CHANNELS)
    hidden = b.g.emit("gelu", [b.dense(b.norm(x), 4 * CHANNELS)], {"approximate": False})
    out = b.binary("add", x, b.dense(hidden, CHANNELS), 1 / 32)
    graph = b.finish(out)
    plan = plan_in_stages(graph, [tuple(range(len(graph.ops)))], kernels=KernelRule(core))
    schedule = plan.stages[0].schedule
    assert schedule is not None and set(schedule.line_buffers.values()) == {1}
    prove(plan, tmp_path)


@pytest.mark.parametrize("core", ["", "cortex-m4"])
def test_a_stage_reads_an_input_by_rows_and_as_a_matrix(core: str, tmp_path: Path) -> None:
    """Two views share the bytes of the input; the output must not overwrite them, since each row reads the whole matrix."""
    b = Builder(8, flat=True)
    x = b.input(TIME, CHANNELS)
    scores = b.product(x, x, turned=True)
    graph = b.finish(b.product(b.softmax(scores), x, turned=False))
    rest = tuple(i for i, op in enumerate(graph.ops) if op.kind != "reshape")
    views = [(i,) for i in range(len(graph.ops)) if i not in rest]
    plan = plan_in_stages(graph, [*views, rest], kernels=KernelRule(core))
    assert plan.stages[-1].schedule is not None
    prove(plan, tmp_path, ("cortex-m4",))
    out = graph.outputs[0]
    with pytest.raises(UnsoundPlanError, match=r"is not intact|which it reads"):
        check(replace(plan, offsets={**plan.offsets, out: plan.offsets[x]}))


@pytest.mark.parametrize("index", [1, 2], ids=["keys", "values"])
def test_the_check_refuses_a_plan_that_overwrites_keys_or_values(index: int) -> None:
    """Each row reads all keys and values, so the row of the query must not be written over them."""
    plan = fused(attention(crossing=False, causal=False), "")
    matrix, query = f"fully_connected_{index}_out", "fully_connected_0_out"
    moved = replace(plan, offsets={**plan.offsets, query: plan.offsets[matrix]})
    with pytest.raises(UnsoundPlanError, match=r"reads row 0 of 'reshape_\d_out', which is not intact"):
        check(moved)


def test_the_check_refuses_a_plan_that_overwrites_keys_after_the_first_row() -> None:
    """The output's row 4 is written over the keys, which row 5 reads again."""
    plan = fused(attention(crossing=False, causal=False), "")
    begin = -(-plan.arena["sram"] // 4) * 4
    keys, out = "fully_connected_1_out", plan.graph.outputs[0]
    offsets = {**plan.offsets, out: begin, keys: begin + 4 * CHANNELS}
    arena = begin + 4 * CHANNELS + plan.buffer(keys).bytes
    with pytest.raises(UnsoundPlanError, match=r"reads row 0 of 'reshape_\d_out', which is not intact"):
        check(replace(plan, offsets=offsets, arena={"sram": arena}))


def test_the_arena_of_a_fused_head_is_keys_and_values_and_rows() -> None:
    """Counted by hand: the input, which the output overwrites row by row, keys, values, and five rows inside the stage.

    These are a query, its scores, their softmax, the product with the values, and the row of the last dense layer.
    """
    graph = attention(crossing=False, causal=False)
    plan = fused(graph, "")
    row = [7, TIME, TIME, 7, CHANNELS]
    words = [-(-size // 4) * 4 for size in (7 * TIME, 7 * TIME, *row)]
    assert plan.lower_bound == plan.arena["sram"] == sum(words) + TIME * CHANNELS
