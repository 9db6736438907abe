"""Building a plan: what stages hold becomes buffers, these get offsets, and all of it becomes a Plan.

In: a graph, its stages in the order in which they run, who lies in whose bytes. Out: drafts, which are only placed and can be
compared; of the one that is wanted the Plan, checked. Where the busiest step's need is not reached, tensors move between steps.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from ..ir import Graph, itemsize
from .alias.overlap import ANY_DISTANCE, distances, rules, shared_in
from .alias.subtensors import Aliases
from .check import check
from .fuse.access import RowGraph, row_bytes, tile_bytes
from .fuse.schedule import distances_by_stage, schedule_stages
from .kernel_choice import FOR_ALL, Kernels, calls, scratch_of, variants_in
from .liveness import lifetimes
from .order.search import each_its_own, file_order
from .place.place import TRIES, Rule, place
from .place.relocate import Relocation, find_relocation
from .place.relocation_ops import lone_tensors, with_moves
from .plan import Buffer, Place, Plan, Stage, Tile, scratch_name, tiles_name

NO_OVERLAP = -ANY_DISTANCE  # as the largest overlap distance: it never lies over an operand
FEWER_TRIES = TRIES // 200  # to find a placement without moves where one with moves is known


class Layout(NamedTuple):
    """What is to be placed: the ops of a graph in stages, whose tensors lie in buffers of one memory, which overlap as rules
    allow, of overlap distances up to `max_distance`."""

    row_graph: RowGraph
    stages: Sequence[tuple[int, ...]]
    shared: Aliases
    memory: str
    max_distance: int
    places: Mapping[str, Place]
    buffers: tuple[Buffer, ...]
    rules: list[Rule]
    kernels: Kernels = FOR_ALL


class PlacedLayout(NamedTuple):
    """offsets: per buffer. bytes: the arena. lower_bound: as of a Plan. unmoved: where tensors move between steps, the same
    layout without these moves, which needs more bytes and fewer cycles."""

    layout: Layout
    offsets: dict[str, int]
    bytes: int
    lower_bound: int
    unmoved: PlacedLayout | None = None

    @property
    def cost(self) -> tuple[int, int]:
        """Return bytes first, then calls of kernels."""
        return self.bytes, calls(self.layout.row_graph.variants)


def plan_in_order(
    graph: Graph,
    order: Sequence[int],
    memory: str = "sram",
    *,
    overlap: bool = False,
    max_distance: int = ANY_DISTANCE,
    share: bool = True,
    moves: bool = False,
    parts: bool = False,
    kernels: Kernels = FOR_ALL,
) -> Plan:
    """Return the plan that runs the ops one by one in `order`.

    With `overlap` an output may lie over operands that die with its op, if its kernel's overlap distance is at most
    `max_distance`; without `share` every tensor has bytes of its own and what would be a view is a copy. With `moves` tensors
    move to other places between steps where only that makes the arena as small as the busiest step allows. With `parts` tensors
    lie in what they are cut from or joined to.
    """
    shared = shared_in(graph, order, parts=parts) if share else Aliases(each_its_own(graph), {}, frozenset())
    max_distance = max_distance if overlap else NO_OVERLAP
    layout = lay_out(graph, one_by_one(order), shared, memory, max_distance=max_distance, kernels=kernels)
    return finish(draft(layout, moves=moves))


def plan_in_stages(
    graph: Graph,
    stages: Sequence[tuple[int, ...]],
    memory: str = "sram",
    *,
    streamed_inputs: tuple[str, ...] = (),
    tiles: tuple[Tile, ...] = (),
    streamed_outputs: tuple[str, ...] = (),
) -> Plan:
    """Return the plan that runs the ops in these stages; fused are those of more than one op and those with streamed inputs or
    outputs.

    The ops of each of the `tiles` run together, some columns at a time.
    """
    shared = shared_in(graph, [index for ops in stages for index in ops], parts=False)
    return finish(
        draft(
            lay_out(
                graph, stages, shared, memory, streamed_inputs=streamed_inputs, tiles=tiles, streamed_outputs=streamed_outputs
            )
        )
    )


def one_by_one(order: Sequence[int]) -> list[tuple[int, ...]]:
    """Return a stage per op."""
    return [(index,) for index in order]


def lay_out(
    graph: Graph,
    stages: Sequence[tuple[int, ...]],
    shared: Aliases,
    memory: str,
    *,
    streamed_inputs: tuple[str, ...] = (),
    tiles: tuple[Tile, ...] = (),
    streamed_outputs: tuple[str, ...] = (),
    max_distance: int = ANY_DISTANCE,
    kernels: Kernels = FOR_ALL,
) -> Layout:
    """Return the buffers of these stages, and how they may overlap; one area is the scratch of all ops of a stage."""
    variants = variants_in(graph, shared, kernels)
    row_graph, scratch = RowGraph(graph, variants, streamed_inputs, tiles, streamed_outputs), scratch_of(graph, variants)
    schedules = schedule_stages(row_graph, stages)
    rings = {name: rows for scheduled in schedules if scheduled for name, rows in scheduled.schedule.rings.items()}
    sizes = {name: rows * row_bytes(graph.tensors[name]) for name, rows in rings.items()}
    more = []
    for step, (ops, scheduled) in enumerate(zip(stages, schedules, strict=True)):
        work_areas = ((ops[0], max(scratch[index] for index in ops)), (ops[-1], row_graph.sums[ops[-1]] if scheduled else 0))
        more += [Buffer(scratch_name(graph.ops[i].name), size, step, step + 1, memory=memory) for i, size in work_areas if size]
    places = {name: Place(source, shared.offset.get(name, 0)) for name, source in shared.owner.items()}
    for step, ops in enumerate(stages):  # one buffer for all tiles of a stage, which run one after the other
        name = tiles_name(graph.ops[ops[-1]].name)
        inside = [_in_tile(row_graph, tile, name) for tile in tiles if tile.ops[0] in ops]
        if inside:
            more.append(Buffer(name, max(size for _, size in inside), step, step + 1, memory=memory))
            places |= {tensor: place for inner, _ in inside for tensor, place in inner.items()}
    owner = {name: source for name, source in shared.owner.items() if places[name].buffer in graph.tensors}
    buffers = (*_buffers(graph, stages, owner, memory, rings=sizes, by_rows={*streamed_inputs, *streamed_outputs}), *more)
    distance = distances_by_stage(
        row_graph, stages, schedules, distances(graph, variants, shared.owner, max_distance, shared.offset), shared.owner
    )
    allowed = rules(graph, stages, owner, distance, buffers)
    return Layout(row_graph, stages, shared, memory, max_distance, places, buffers, allowed, kernels)


def _in_tile(row_graph: RowGraph, tile: Tile, buffer: str) -> tuple[dict[str, Place], int]:
    """Return where in their buffer the tensors lie that a tile's ops pass on, and the bytes of all."""
    places, end = {}, 0
    for name, size in tile_bytes(row_graph, tile).items():
        places[name] = Place(buffer, -(-end // 4) * 4 if size else 0)  # what has no rows takes no gap either
        end = max(end, places[name].offset + size)
    return places, end


def _buffers(
    graph: Graph,
    stages: Sequence[tuple[int, ...]],
    owner: Mapping[str, str],
    memory: str,
    *,
    rings: Mapping[str, int],
    by_rows: Collection[str],
) -> tuple[Buffer, ...]:
    """Return one buffer per tensor that owns bytes, alive from its first write to the last read of any of its views; state
    always.

    rings: the bytes of what only one stage sees. by_rows: inputs and outputs that come and go while their stage runs. All are
    aligned to words, which fast kernels load; bytes side by side would save the real networks no more than 6 bytes.
    """
    lives = lifetimes(graph, stages, owner, by_rows=by_rows)
    return tuple(
        Buffer(name, rings.get(name, tensor.bytes), max(life.begin, 0), life.end, max(4, itemsize(tensor.dtype)), memory)
        for name, tensor, life in ((name, graph.tensors[name], life) for name, life in lives.items())
    )


def draft(layout: Layout, *, moves: bool = True, tries: int = TRIES) -> PlacedLayout:
    """Return offsets for a layout, with `moves` after moves between steps if need be; `tries` as for `place`."""
    placed, unmoved = place(layout.buffers, layout.rules, tries=0), None
    lower_bound = placed.lower_bound
    if placed.bytes > lower_bound and tries:
        relocation = _relocate(layout, lower_bound, placed.bytes, moves=moves)
        known = None if relocation is None or relocation.moved else {name: at for name, (at,) in relocation.offsets.items()}
        within_bound = relocation is not None and relocation.bytes < lower_bound + max(b.align for b in layout.buffers)
        placed = place(layout.buffers, layout.rules, min(tries, FEWER_TRIES) if within_bound else tries, known=known)
        if relocation is not None and relocation.bytes < placed.bytes:
            unmoved = PlacedLayout(layout, placed.offsets, placed.bytes, lower_bound)
            layout, known = _carry_out(layout, relocation)
            placed = place(layout.buffers, layout.rules, 0, known=known)
    return PlacedLayout(layout, placed.offsets, placed.bytes, lower_bound if moves else placed.lower_bound, unmoved)


def _relocate(layout: Layout, lower_bound: int, upper_bound: int, *, moves: bool) -> Relocation | None:
    """Return layouts within `lower_bound`, or within the least of some capacities up to `upper_bound` where that cannot be
    had."""
    graph = layout.row_graph.graph
    lone = lone_tensors(graph, layout.stages, layout.shared.owner) if moves else {}
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


def _carry_out(layout: Layout, relocation: Relocation) -> tuple[Layout, dict[str, int]]:
    """Return the layout of the graph that holds the moves as ops, and the offsets that the search gave it."""
    row_graph = layout.row_graph
    lone = lone_tensors(row_graph.graph, layout.stages, layout.shared.owner)
    steps: list[int | str] = []
    stages: list[tuple[int, ...]] = []
    for step, ops in enumerate(layout.stages):
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
    shared = shared_in(graph, file_order(graph), parts=bool(layout.shared.free))
    by_rows = {"streamed_inputs": tuple(row_graph.streamed_inputs), "streamed_outputs": tuple(row_graph.streamed_outputs)}
    max_distance, kernels = layout.max_distance, layout.kernels
    moved = lay_out(graph, stages, shared, layout.memory, tiles=tiles, max_distance=max_distance, kernels=kernels, **by_rows)
    return moved, known


def finish(placed: PlacedLayout, channels_once: Mapping[str, int] = MappingProxyType({}), *, checked: bool = True) -> Plan:
    """Return the plan of a placed layout, `checked` or to be checked; channels_once: as of a Plan."""
    layout, row_graph = placed.layout, placed.layout.row_graph
    graph, schedules = row_graph.graph, schedule_stages(row_graph, layout.stages)
    made = Plan(
        graph=graph,
        stages=tuple(
            Stage(ops)
            if scheduled is None
            else Stage(ops, tuple(tile for tile in row_graph.tiles if tile.ops[0] in ops), scheduled.schedule)
            for ops, scheduled in zip(layout.stages, schedules, strict=True)
        ),
        variants=tuple(row_graph.variants),
        buffers=layout.buffers,
        places=layout.places,
        offsets=placed.offsets,
        arena={layout.memory: placed.bytes},
        scratch=max(scratch_of(graph, row_graph.variants), default=0),
        lower_bound=placed.lower_bound,
        streamed_inputs=tuple(row_graph.streamed_inputs),
        channels_once=channels_once,
        streamed_outputs=tuple(row_graph.streamed_outputs),
    )
    return check(made) if checked else made
