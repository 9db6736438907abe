"""State shifted in place: rows of a stream are copied once, and new rows are computed directly after them."""

from __future__ import annotations

from dataclasses import replace

from cases.frames import wake_word

from tinyweave.ir import Graph, Op, Tensor
from tinyweave.passes.stream_time import stream_time
from tinyweave.planning import plan
from tinyweave.planning.alias.overlap import shared_in
from tinyweave.planning.order.order_search import file_order


def aliases(graph: Graph) -> tuple[dict[str, str], set[str]]:
    shared = shared_in(graph, file_order(graph), parts=True)
    return shared.owner, {graph.ops[index].name for index in shared.free}


def test_kept_rows_are_shifted_and_new_rows_are_computed_in_the_state() -> None:
    graph = stream_time(wake_word()).graph
    owner, free = aliases(graph)
    home = "conv_2d_1:state"
    assert {owner[f"conv_2d_1:{part}"] for part in ("old", "kept", "joined", "new")} == {home}
    assert {"conv_2d_1_joined", "conv_2d_3_joined"} <= free and not {"conv_2d_1_kept", "conv_2d_3_kept"} & free
    made = plan(graph)
    assert made.offset("conv_2d_1:kept") == made.offset(home)
    assert made.offset("conv_2d_1:new") == made.offset(home) + 4 * 12
    assert sum(made.arena.values()) < 2 * 8 + 5 * 12 + 10 * 12 + 70, "the states, and little more than the largest map"


def _more(graph: Graph, op: Op, *tensors: Tensor) -> Graph:
    """Return the graph with one more op, whose output is unused, before the last join of rows."""
    at = next(number for number, other in enumerate(graph.ops) if other.name == "conv_2d_1_joined")
    tensors_by_name = {**graph.tensors, **{tensor.name: tensor for tensor in tensors}}
    outputs = (*graph.outputs, op.outputs[0])
    return replace(graph, tensors=tensors_by_name, ops=(*graph.ops[:at], op, *graph.ops[at:]), outputs=outputs)


def test_state_that_another_op_reads_is_not_written_in_place() -> None:
    graph = stream_time(wake_word()).graph
    old = graph.tensors["conv_2d_1:old"]
    late = Op("late", "relu", (old.name,), ("late",))
    changed = _more(graph, late, replace(old, name="late"))
    assert "conv_2d_1_joined" not in aliases(changed)[1] and "conv_2d_3_joined" in aliases(changed)[1]


def test_new_rows_computed_before_the_shift_have_their_own_buffer() -> None:
    graph = stream_time(wake_word()).graph
    names = [op.name for op in graph.ops]
    kept, layer = names.index("conv_2d_1_kept"), names.index("conv_2d_1")
    order = [*range(kept), *range(kept + 1, layer + 1), kept, *range(layer + 1, len(names))]
    free = {names[index] for index in shared_in(graph, order, parts=True).free}
    assert "conv_2d_1_joined" not in free and "conv_2d_3_joined" in free


def test_only_rows_that_no_other_op_reads_are_shifted_in_fused_plans() -> None:
    def free(graph: Graph) -> set[str]:
        return {graph.ops[index].name for index in shared_in(graph, file_order(graph), parts=False).free}

    graph = stream_time(wake_word()).graph
    assert free(graph) == {"conv_2d_1_joined", "conv_2d_3_joined"}
    kept = graph.tensors["conv_2d_1:kept"]
    late = Op("late", "relu", (kept.name,), ("late",))
    assert free(_more(graph, late, replace(kept, name="late"))) == {"conv_2d_3_joined"}
