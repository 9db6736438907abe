"""From stages to a plan: derive the buffers of some stages, place them, and return the Plan.

In: a graph, its stages, its aliases. Out: a Layout, the buffers of a plan without their offsets; then the Plan. If the
placement needs more bytes than the largest step, tensors may be relocated, that is copied to another offset between two steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..ir import Graph, Tensor, itemsize
from .alias.overlap import ANY_DISTANCE, rules, shared_in
from .alias.subtensors import Aliases
from .check import check
from .fuse.row_access import WHOLE, RowGraph, StreamedIO, row_bytes, tile_offsets
from .fuse.row_schedule import distances_by_stage, schedule_stages
from .kernel_choice import PORTABLE, KernelRule, scratch_of, variants_in
from .liveness import Life, lifetimes
from .order.order_search import file_order, without_views
from .place.place import TRIES, Placement, Rules, place
from .place.relocate import Relocation, find_relocation
from .place.relocation_ops import lone_tensors, with_moves
from .plan import ONE_MEMORY, Buffer, Place, Plan, Stage, Tile, scratch_name, tiles_name

NO_OVERLAP = -ANY_DISTANCE  # a max_distance that allows no overlap at all
FEWER_TRIES = TRIES // 200  # of the exact search without relocations, if a placement with relocations is known


class Layout(NamedTuple):
    """Buffers to be placed in one memory, the rules by which they may overlap, and the stages from which they are derived."""

    row_graph: RowGraph
    stages: tuple[Stage, ...]
    shared: Aliases
    max_distance: int  # largest overlap distance that the rules allow, in bytes
    places: Mapping[str, Place]
    buffers: tuple[Buffer, ...]
    rules: Rules
    kernels: KernelRule = PORTABLE


def plan_in_order(
    graph: Graph,
    order: Sequence[int],
    *,
    max_distance: int = NO_OVERLAP,
    share: bool = True,
    moves: bool = False,
    parts: bool = False,
    kernels: KernelRule = PORTABLE,
) -> Plan:
    """Return the checked plan that runs the ops unfused, in the given order.

    `max_distance` is the largest overlap distance to use, in bytes; by default no output overlaps an operand. `share` says
    whether views share the memory of their input; otherwise they are copies.
    """
    shared = shared_in(graph, order, parts=parts) if share else Aliases(without_views(graph), {}, frozenset())
    layout = lay_out(graph, unfused_stages(order), shared, max_distance=max_distance, kernels=kernels)
    return check(place_layout(layout, moves=moves)[0])


def unfused_stages(order: Sequence[int]) -> list[tuple[int, ...]]:
    """Return a stage of one op for each op, in this order."""
    return [(index,) for index in order]


def lay_out(
    graph: Graph,
    stages: Sequence[tuple[int, ...]],
    shared: Aliases,
    *,
    streams: StreamedIO = WHOLE,
    tiles: tuple[Tile, ...] = (),
    max_distance: int = ANY_DISTANCE,
    kernels: KernelRule = PORTABLE,
) -> Layout:
    """Return the buffers of these stages, and the rules by which they may overlap; offsets follow in `place_layout`.

    The ops of a stage share one scratch buffer, and its tiles one tile buffer, because they run one after the other.

    Args:
        max_distance: largest overlap distance to use, in bytes; NO_OVERLAP lets no output overlap an operand.
    """
    variants = variants_in(graph, shared, kernels)
    row_graph, scratch = RowGraph(graph, variants, tiles=tiles, **streams._asdict()), scratch_of(graph, variants)
    planned = schedule_stages(row_graph, stages)
    line_buffers = {name: rows for stage in planned if stage.schedule for name, rows in stage.schedule.line_buffers.items()}
    places = {name: Place(source, shared.offset.get(name, 0)) for name, source in shared.owner.items()}
    scratch_buffers, tile_buffers = list[Buffer](), list[Buffer]()
    for step, (ops, of_stage, schedule) in enumerate((stage.ops, stage.tiles or (), stage.schedule) for stage in planned):
        sums = row_graph.accumulator_bytes[ops[-1]] if schedule else 0
        for index, size in ((ops[0], max(scratch[index] for index in ops)), (ops[-1], sums)):
            if size:
                scratch_buffers.append(Buffer(scratch_name(graph.ops[index].name), size, step, step + 1))
        name, inside = tiles_name(graph.ops[ops[-1]].name), [tile_offsets(row_graph, tile) for tile in of_stage]
        places |= {tensor: Place(name, offset) for offsets, _ in inside for tensor, offset in offsets.items()}
        if inside:
            tile_buffers.append(Buffer(name, max(size for _, size in inside), step, step + 1))
    owner = {name: source for name, source in shared.owner.items() if places[name].buffer in graph.tensors}
    lives = lifetimes(graph, stages, owner, by_rows={name for names in streams for name in names})
    buffers = [_buffer(graph.tensors[name], line_buffers.get(name), life) for name, life in lives.items()]
    buffers += [*scratch_buffers, *tile_buffers]
    distance = distances_by_stage(row_graph, planned, shared.owner, shared.offset, max_distance)
    allowed = rules(graph, stages, owner, distance, buffers)
    return Layout(row_graph, planned, shared, max_distance, places, tuple(buffers), allowed, kernels)


def _buffer(tensor: Tensor, ring_rows: int | None, life: Life) -> Buffer:
    """Return the buffer of a tensor: for all of it if `ring_rows` is None, else a line buffer of `ring_rows` rows.

    Fast kernels load words, so all buffers are aligned to words. Byte alignment would save at most 6 bytes on real networks.
    """
    size = tensor.bytes if ring_rows is None else ring_rows * row_bytes(tensor)
    return Buffer(tensor.name, size, max(life.begin, 0), life.end, max(4, itemsize(tensor.dtype)))


def place_layout(layout: Layout, *, moves: bool = True, tries: int = TRIES) -> list[Plan]:
    """Place the buffers of a layout: return an unchecked plan and, if it relocates tensors, one without relocations.

    With `moves`, tensors may be copied between steps if that makes the arena smaller. `tries` limits the exact search, in
    placements of one buffer; 0 for a greedy placement only.
    """
    placed, unmoved = place(layout.buffers, layout.rules, tries=0), list[Plan]()
    lower_bound = placed.lower_bound
    if placed.bytes > lower_bound and tries:
        relocation = _relocate(layout, lower_bound, placed.bytes, moves=moves)
        known = None if relocation is None or relocation.moved else {name: at for name, (at,) in relocation.offsets.items()}
        within_bound = relocation is not None and relocation.bytes < lower_bound + max(b.align for b in layout.buffers)
        placed = place(layout.buffers, layout.rules, min(tries, FEWER_TRIES) if within_bound else tries, known=known)
        if relocation is not None and relocation.bytes < placed.bytes:
            unmoved = [_plan(layout, placed, lower_bound)]
            layout, known = _with_relocations(layout, relocation)
            placed = place(layout.buffers, layout.rules, 0, known=known)
    return [_plan(layout, placed, lower_bound if moves else placed.lower_bound), *unmoved]


def _relocate(layout: Layout, lower_bound: int, upper_bound: int, *, moves: bool) -> Relocation | None:
    """Search for a placement with relocations in an arena of `lower_bound` bytes, else of larger sizes below `upper_bound`.

    At most five sizes are tried, the smallest first. Return the first placement found, or None. Without `moves`, no buffer is
    relocated.
    """
    graph = layout.row_graph.graph
    lone = lone_tensors(graph, [stage.ops for stage in layout.stages], layout.shared.owner) if moves else {}
    inputs = {layout.shared.owner[name] for name in graph.inputs if name not in layout.row_graph.streamed_inputs}
    state = {name for name, tensor in graph.tensors.items() if tensor.role == "state"}
    grain = max(buffer.align for buffer in layout.buffers)
    steps = [lower_bound + (upper_bound - lower_bound) * part // 8 // grain * grain for part in (1, 2, 4)]
    for capacity in dict.fromkeys((lower_bound, -(-lower_bound // grain) * grain, *steps)):
        relocation = find_relocation(
            layout.buffers, layout.rules, capacity, (state, inputs), lambda buffer, step: (buffer, step) in lone
        )
        if relocation is not None:
            return relocation
    return None


def _with_relocations(layout: Layout, relocation: Relocation) -> tuple[Layout, dict[str, int]]:
    """Return the layout of the graph that contains the relocations as copy ops, and the offset of each of its buffers."""
    row_graph, old_stages = layout.row_graph, [stage.ops for stage in layout.stages]
    lone = lone_tensors(row_graph.graph, old_stages, layout.shared.owner)
    steps: list[int | str] = []
    stages: list[tuple[int, ...]] = []
    for step, ops in enumerate(old_stages):
        for name in (lone[buffer, step] for at, buffer in relocation.moved if at == step):
            stages.append((len(steps),))
            steps.append(name)
        stages.append(tuple(range(len(steps), len(steps) + len(ops))))
        steps += ops
    graph, names = with_moves(row_graph.graph, steps)
    number = {index: at for at, index in enumerate(steps) if isinstance(index, int)}
    tiles = tuple(replace(tile, ops=tuple(number[index] for index in tile.ops)) for tile in row_graph.tiles)
    known = {names.get(buffer, [buffer])[0]: offsets[0] for buffer, offsets in relocation.offsets.items()}
    left = {buffer: iter(offsets[1:]) for buffer, offsets in relocation.offsets.items()}
    targets = [op.outputs[0] for op, step in zip(graph.ops, steps, strict=True) if isinstance(step, str)]
    known |= {target: next(left[buffer]) for target, (_, buffer) in zip(targets, relocation.moved, strict=True)}
    shared = shared_in(graph, file_order(graph), parts=layout.shared.parts)
    streams = StreamedIO(tuple(row_graph.streamed_inputs), tuple(row_graph.streamed_outputs))
    max_distance, kernels = layout.max_distance, layout.kernels
    moved = lay_out(graph, stages, shared, streams=streams, tiles=tiles, max_distance=max_distance, kernels=kernels)
    return moved, known


def _plan(layout: Layout, placed: Placement, lower_bound: int) -> Plan:
    """Return the plan of a layout with the offsets of `placed`. The plan records `lower_bound`, in bytes."""
    row_graph = layout.row_graph
    return Plan(
        graph=row_graph.graph,
        stages=layout.stages,
        variants=tuple(row_graph.variants),
        buffers=layout.buffers,
        places=layout.places,
        offsets=placed.offsets,
        arena={ONE_MEMORY: placed.bytes},
        scratch=max(scratch_of(row_graph.graph, row_graph.variants), default=0),
        lower_bound=lower_bound,
        streamed_inputs=tuple(row_graph.streamed_inputs),
        streamed_outputs=tuple(row_graph.streamed_outputs),
    )
