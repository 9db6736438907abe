"""The planner. In: a Graph and a schedule's name. Out: a checked Plan, the one that is wanted of those that it can make."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from ..ir import CompileError, Graph
from ..kernels.layer_cycles import layer_cycles
from ..ops import macs
from .alias.overlap import ANY_DISTANCE, shared_in
from .assemble import NO_OVERLAP, PlacedLayout, draft, finish, lay_out, one_by_one
from .fuse.access import RowGraph, streamable_outputs
from .fuse.baselines import first_rows, patches
from .fuse.rematerialise import with_channels_once
from .fuse.schedule import is_fused, plan_macs
from .fuse.stages import NEVER, not_by_rows
from .kernel_choice import FOR_ALL, Kernels, variants_in
from .kernels.flash_budget import for_constants, kernels_within_flash
from .memories import excess, spread
from .order.search import MOST_SETS, file_order
from .place.place import TRIES
from .place.relocation_ops import is_move
from .plan import Plan
from .trade.channels_once import best_channels_once
from .trade.choose import COSTS, Aim, Found, Trade, most_distinct
from .trade.space import Space
from .trade.spaces import StreamedIO, orders_of, space_of

SCHEDULES = ("best", "unfused", "layer", "patch", "msf", "stream2d")
RECOMPUTING = ("patch", "msf")  # compute rows and columns again, as many as they like if no limit is given
OVERHEADS = (1.05, 1.1, 1.2, 1.3, 1.5, 2.0)  # for which maps that are computed twice are chosen, besides the most allowed
ROUNDING = 1e-6  # multiply-accumulates; of a quotient of two counts
FEW_SETS = 500  # of ops, looked at for an order in a few milliseconds
MOST_POINTS = 24  # of a front: more are hard to read
SLACK = 0.01  # of the bytes of a path, that its placement may need besides without a look at other paths
MOST_LAYOUTS = 8  # of paths that should fit and do not when they are laid out
Progress = Callable[[str, int, int], None]
"""Called while planning: what, how many of it are done, of how many in all; 0 where that is not known."""


def plan(
    graph: Graph,
    schedule: str = "best",
    memory: str = "sram",
    *,
    maps: Sequence[Mapping[str, int]] = (),
    stream_inputs: bool = False,
    stream_outputs: bool = False,
    max_mac_overhead: float | None = None,
    fast: bool = False,
    core: str = "",
    aim: Aim | None = None,
    ram_limit: int | None = None,
    cycle_limit: int | None = None,
    flash: int | None = None,
    other_flash: int | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Return the checked plan of `graph` by a schedule.

    `best` takes the order with the least peak and lets outputs overlap operands that die in the same step. It moves tensors
    between steps, fuses ops into stages that run row by row or tile by tile, and computes maps twice instead of keeping them,
    each where that makes the arena smaller. `unfused` does all of this but fuse and compute twice. `layer`, the baseline,
    keeps the file's order and every output apart from operands. `patch`, `msf` and `stream2d` are `unfused` with the stages of
    other planners (fuse/baselines.py); `patch:N:K` has N x N patches of the first K layers, and searches what is left out or 0.

    maps: memories (name -> bytes, the fastest first), as alternatives: the plan uses the first that holds it, or the one that
    is exceeded least. Without maps all lies in `memory`, and `ram_limit` is its limit in bytes.
    stream_inputs: a callback brings the network's inputs by rows; none is ever whole. stream_outputs: a callback takes those
    outputs by rows that are maps, are computed by rows, and that nothing in the network reads. Both need fused stages.
    max_mac_overhead: the plan executes at most so many times the multiply-accumulates of the graph. Left out it is 1.0, where
    nothing is done twice; `patch` and `msf` then have no limit.
    fast: a short search for the order, none for the placement, no fused stages: for those who plan thousands of networks.
    core: use its fast kernels besides the portable ones; their scratch counts in the arena. aim: of the plans within the limits
    the one with the least arena, with the least product of arena and cycles, or with the fewest cycles; left out it is the
    product with a core, else the arena. The cycles are estimates from shapes. cycle_limit: the most that it may take. Where
    no plan is within the limits, the fastest within `ram_limit`; where that does not fit either, the smallest.
    flash: bytes for constants and for `other_flash`, everything else in Flash (estimated if left out). Kernels that keep more
    constants to be faster share what is left. progress: called for each plan that is laid out.

    Raise CompileError where the schedule is unknown or cannot stream what it is asked to.
    """
    choices = Choices(
        graph,
        schedule,
        memory,
        stream_inputs=stream_inputs,
        stream_outputs=stream_outputs,
        max_mac_overhead=max_mac_overhead,
        fast=fast,
        core=core,
        flash=flash,
        other_flash=other_flash,
    )
    aim = aim or ("balanced" if core else "size")
    return choices.plan(aim, maps=maps, ram_limit=ram_limit, cycle_limit=cycle_limit, progress=progress)


class Choices:
    """What `plan` chooses from, so that it can be asked for several limits. The options are those of `plan`."""

    def __init__(
        self,
        graph: Graph,
        schedule: str = "best",
        memory: str = "sram",
        *,
        stream_inputs: bool = False,
        stream_outputs: bool = False,
        max_mac_overhead: float | None = None,
        fast: bool = False,
        core: str = "",
        flash: int | None = None,
        other_flash: int | None = None,
    ) -> None:
        streams = _streamed_io(graph, schedule, stream_inputs=stream_inputs, stream_outputs=stream_outputs)
        kernels = _kernels(graph, core, flash, other_flash)
        self.graph, self.schedule, self.overhead = graph, schedule, max_mac_overhead
        self.sources = _sources(graph, schedule, memory, streams, kernels, overhead=max_mac_overhead, fast=fast)

    @cached_property
    def least_bytes(self) -> int:
        """Return bytes of memory that no plan needs less than; NEVER where there is no plan."""
        found = Trade([(source.space, source.budget) for source in self.sources]).least_bytes()
        return NEVER if found is None else found.path.bytes

    def plan(
        self,
        aim: Aim,
        *,
        maps: Sequence[Mapping[str, int]] = (),
        ram_limit: int | None = None,
        cycle_limit: int | None = None,
        checked: bool = True,
        progress: Progress | None = None,
    ) -> Plan:
        """Return the plan that `plan` returns; not `checked`, it is to be judged and not to be used."""
        limits = [sum(memories.values()) for memories in maps] or ([ram_limit] if ram_limit is not None else [])
        planned = _chosen(
            self.sources,
            aim,
            byte_limit=max(limits, default=NEVER),
            cycle_limit=NEVER if cycle_limit is None else cycle_limit,
            checked=checked and not maps,
            progress=progress,
        )
        if _works_too_much(self.graph, planned, self.overhead):
            raise _too_little_work(self.overhead)
        spreads: list[Plan] = []
        for memories in maps:
            spreads.append(spread(planned, memories, overlap=self.schedule != "layer", checked=checked))
            if not excess(spreads[-1].arena, memories):
                return spreads[-1]
        over = [excess(candidate.arena, memories) for candidate, memories in zip(spreads, maps, strict=True)]
        return spreads[over.index(min(over))] if over else planned


def _kernels(graph: Graph, core: str, flash: int | None, other_flash: int | None) -> list[Kernels]:
    """Return the kernels that ops may have, the portable ones first; without a core no others. flash, other_flash: as of
    `plan`."""
    if not core:
        return [FOR_ALL]
    room = NEVER if flash is None else for_constants(graph, core, flash, other_flash)
    return [FOR_ALL, *kernels_within_flash(graph, core, room)]


def smallest_plan(
    graph: Graph,
    schedule: str,
    memory: str,
    kernels: Kernels,
    *,
    stream_inputs: bool = False,
    stream_outputs: bool = False,
) -> Plan:
    """Return the plan of a schedule with these kernels that needs least memory and does no work again; it is not checked."""
    streams = _streamed_io(graph, schedule, stream_inputs=stream_inputs, stream_outputs=stream_outputs)
    sources = _sources(graph, schedule, memory, streams, [kernels], overhead=1.0, fast=False)
    return _chosen(sources, "size", checked=False)


class _Source(NamedTuple):
    """A space of plans, the multiply-accumulates that they may do again, and how a path of it is laid out.

    inside: tensors lie in what they are cut from or joined to. channels_once: maps that are computed twice in its graph.
    """

    space: Space
    budget: int
    memory: str
    kernels: Sequence[Kernels]
    streams: StreamedIO
    inside: bool = False
    overlap: bool = True
    fast: bool = False
    channels_once: Mapping[str, int] = {}

    def laid_out(self, found: Found, *, moves: bool = True) -> PlacedLayout:
        """Return the placed buffers of a path: with `moves`, which take time, between steps where less is needed so; else as
        they are placed without a search."""
        graph, stages = self.space.row_graph.graph, found.path.stages
        kernels = _with_names(
            graph, self.kernels, {i: n for stage in stages for i, n in zip(stage.ops, stage.kernels, strict=True)}
        )
        shared = shared_in(graph, self.space.order, parts=self.inside)
        tiles = tuple(tile for stage in stages for tile in stage.tiles)
        layout = lay_out(
            graph,
            [stage.ops for stage in stages],
            shared,
            self.memory,
            tiles=tiles,
            kernels=kernels,
            max_distance=ANY_DISTANCE if self.overlap else NO_OVERLAP,
            **self.streams._asdict(),
        )
        return draft(layout, moves=self.overlap and not self.fast, tries=TRIES if moves and not self.fast else 0)


def _with_names(graph: Graph, kernels: Sequence[Kernels], names: Mapping[int, str]) -> Kernels:
    """Return the kernels with which each op has the one of this name."""
    if len(kernels) == 1:
        return kernels[0]
    portable_ops, flash_heavy = set[str](), set[str]()
    fast = kernels[1]
    for index, name in names.items():
        op = graph.ops[index]
        if not name or name == fast.name(graph, op):
            portable_ops |= {op.name} & fast.portable_ops
        elif name == FOR_ALL.name(graph, op):
            portable_ops.add(op.name)
        else:
            flash_heavy.add(op.name)
    return Kernels(fast.core, frozenset(portable_ops), frozenset(flash_heavy))


def _chosen(
    sources: Sequence[_Source],
    aim: Aim,
    *,
    byte_limit: int = NEVER,
    cycle_limit: int = NEVER,
    checked: bool = True,
    progress: Progress | None = None,
) -> Plan:
    """Return the plan that an aim chooses within limits, else the fastest within so many bytes, else the smallest."""
    trade, core = Trade([(source.space, source.budget) for source in sources]), sources[0].space.cycles_of.core
    cost, best, limit, allowed = COSTS[aim], None, byte_limit, cycle_limit
    smallest: tuple[PlacedLayout, Found] | None = None
    for number in range(MOST_LAYOUTS):
        found = trade.best(aim, limit, allowed)
        if found is None or (best is not None and cost(found) >= cost(_as_placed(*best, core))):
            break
        if progress:
            progress("plans laid out", number, 0)
        placed = sources[found.space].laid_out(found)
        if smallest is None or placed.bytes < smallest[0].bytes:
            smallest = placed, found
        over = _as_placed(placed, found, core).path.cycles - cycle_limit
        if over > 0 and (without := sources[found.space].laid_out(found, moves=False)).bytes <= byte_limit:
            placed, over = without, 0  # moves would take too long
        if placed.bytes > byte_limit or over > 0:  # the next one, which should need less
            limit = found.path.bytes - 1 if placed.bytes > byte_limit else limit
            allowed = found.path.cycles - over if over > 0 else allowed
            continue
        if best is None or cost(_as_placed(placed, found, core)) < cost(_as_placed(*best, core)):
            best = placed, found
        if placed.bytes <= found.path.bytes:
            break
        trade.closed.add(found.space)  # in others a plan may be placed better
    best = best or smallest
    if best is None and cycle_limit < NEVER and (found := trade.best("speed", byte_limit)) is not None:
        most = found.path.cycles
        return _chosen(sources, "speed", byte_limit=byte_limit, cycle_limit=most, checked=checked, progress=progress)
    if best is not None and aim == "size" and cycle_limit == NEVER:
        best = _placed_better(sources, trade, *best)
    if best is None:
        found = trade.least_bytes()
        if found is None:  # some op cannot take what comes by rows
            raise not_by_rows(sources[-1].space.row_graph, sources[-1].space.order)
        best = sources[found.space].laid_out(found), found
    return finish(best[0], sources[best[1].space].channels_once, checked=checked)


def _placed_better(sources: Sequence[_Source], trade: Trade, placed: PlacedLayout, found: Found) -> tuple[PlacedLayout, Found]:
    """Return a plan of fewer bytes than one whose placement needs many more than its path: of the paths that need less than it
    the fastest fuse least, and are often placed better."""
    for _ in range(MOST_LAYOUTS):
        path = trade.path(found.space, placed.bytes - 1)
        if placed.bytes <= found.path.bytes * (1 + SLACK) or path is None or path == found.path:
            break
        again = Found(found.space, path)
        laid = sources[found.space].laid_out(again)
        if laid.bytes >= placed.bytes:
            break
        placed, found = laid, again
    return placed, found


def _as_placed(placed: PlacedLayout, found: Found, core: str) -> Found:
    """Return what was found with the bytes that it needs when it is laid out, and the cycles of moves that placement adds."""
    graph, variants = placed.layout.row_graph.graph, placed.layout.row_graph.variants
    moves = [(op, name) for op, name in zip(graph.ops, variants, strict=True) if is_move(op)]
    cycles = sum(round(layer_cycles(graph, op, name, core) or 0) for op, name in moves)
    return found._replace(path=found.path._replace(bytes=placed.bytes, cycles=found.path.cycles + cycles))


def _sources(
    graph: Graph,
    schedule: str,
    memory: str,
    streams: StreamedIO,
    kernels: Sequence[Kernels],
    *,
    overhead: float | None,
    fast: bool,
) -> list[_Source]:
    """Return the spaces of a schedule's plans."""
    name, budget = _named(schedule)[0], _recomputed(graph, schedule, overhead)
    source = partial(_Source, memory=memory, kernels=kernels, streams=streams, fast=fast)
    space = partial(space_of, kernels=kernels, streams=streams)
    filed = file_order(graph)
    apart, inside = (shared_in(graph, filed, parts=parts) for parts in (False, True))
    if name == "layer":
        return [source(space(graph, filed, apart, overlap=False, budget=0, fuses=False), 0, overlap=False)]
    sets, has_inside = FEW_SETS if fast else MOST_SETS, bool(inside.free) and not any(streams)
    found = list[_Source]()
    if not any(streams):  # what must not overlap is sometimes placed better
        found += _sources(graph, "layer", memory, streams, kernels, overhead=1.0, fast=fast)
    if has_inside:
        orders = orders_of(graph, inside, sets, streams)
        found += [source(space(graph, order, inside, budget=0, fuses=False), 0, inside=True) for order in orders]
    fuses = name == "best" and (any(streams) or not fast)
    if not (fast and has_inside):
        orders = orders_of(graph, apart, sets // 5 if has_inside else sets, streams)
        most = budget if fuses else 0
        found += [source(space(graph, order, apart, budget=most, fuses=fuses), budget) for order in orders]
    if fuses:
        found += _rematerialised(graph, source, space, streams, overhead=overhead, budget=budget)
    return found if name in {"best", "unfused"} else _given(graph, schedule, found, space, streams=streams, budget=budget)


def _works_too_much(graph: Graph, planned: Plan, overhead: float | None) -> bool:
    """Whether a plan executes more than is allowed: with rows left out that nothing needs, that may be less than all."""
    return overhead is not None and overhead < 1 and sum(plan_macs(planned)) > _work(graph, overhead)


def _too_little_work(overhead: float | None) -> CompileError:
    return CompileError(f"no plan runs with {overhead:g} times its work", "give 1.0 or more, or see 'plan --pareto'")


def _named(schedule: str) -> tuple[str, int, int]:
    """Return the name of a schedule, and of patches how many a side and of how many layers, 0 where that is searched."""
    name, *numbers = schedule.split(":")
    if name not in SCHEDULES:
        raise CompileError(f"unknown schedule '{schedule}'", f"schedules are: {', '.join(SCHEDULES)}")
    if numbers and (name != "patch" or len(numbers) > 2 or not all(n.isdecimal() and int(n) != 1 for n in numbers)):
        raise CompileError(f"unknown schedule '{schedule}'", "patch:N:K is N x N patches of the first K layers, from 2 on")
    grid, layers = (*map(int, numbers), 0, 0)[:2]
    return name, grid, layers


def _streamed_io(graph: Graph, schedule: str, *, stream_inputs: bool, stream_outputs: bool) -> StreamedIO:
    """Return what comes and goes by rows; CompileError for what cannot be planned."""
    kind = _named(schedule)[0]
    for what, is_wanted in (("inputs", stream_inputs), ("outputs", stream_outputs)):
        if is_wanted and kind in ("layer", "unfused"):
            raise CompileError(f"schedule {schedule} cannot stream {what}", "use --schedule best")
    for name in graph.outputs:
        data = graph.tensors[name].data
        if data is not None and not np.isfinite(data).all():
            raise CompileError("is a constant output that is not a number", "remove it from the model", tensor=name)
    if all(tensor.data is not None for tensor in graph.tensors.values()):
        raise CompileError(f"graph '{graph.name}' computes nothing: all of it is constant", "give a network with an input")
    streamed_outputs = streamable_outputs(_plain_rows(graph)) if stream_outputs else ()
    if stream_outputs and not streamed_outputs:
        why = "none is a map of several rows that a layer computes by rows and that nothing in the network reads"
        raise CompileError(f"cannot hand out a network output row by row: {why}", "plan without streamed outputs")
    streamed_inputs = tuple(name for name in graph.inputs if name in graph.consumers)  # what some op reads
    return StreamedIO(streamed_inputs if stream_inputs else (), streamed_outputs)


def _plain_rows(graph: Graph) -> RowGraph:
    """Return the graph as rows, with the kernels for all cores."""
    return RowGraph(graph, variants_in(graph, shared_in(graph, file_order(graph), parts=False)))


def _recomputed(graph: Graph, schedule: str, overhead: float | None) -> int:
    """Return how many multiply-accumulates a schedule may do again."""
    if overhead is None:
        return NEVER if _named(schedule)[0] in RECOMPUTING else 0
    if not 0 < overhead < np.inf:
        raise CompileError(f"a network cannot run with {overhead:g} times its work", "give 1.0 or more, for example 1.1")
    return max(_work(graph, overhead) - macs(graph), 0)


def _work(graph: Graph, overhead: float) -> int:
    """Return so many times the multiply-accumulates of a graph, whatever the rounding of a count by another."""
    return math.floor(overhead * macs(graph) + ROUNDING)


def _rematerialised(
    graph: Graph,
    source: Callable[..., _Source],
    space: Callable[..., Space],
    streams: StreamedIO,
    *,
    overhead: float | None,
    budget: int,
) -> Iterator[_Source]:
    """Yield the spaces in which some maps are computed twice, as is best for some amounts of work up to the budget."""
    if not budget or overhead is None:
        return
    budgets = [_recomputed(graph, "best", each) for each in (*(x for x in OVERHEADS if x < overhead), overhead)]
    seen = list[Mapping[str, int]]()
    for channels_once in best_channels_once(graph, streams.streamed_inputs, budgets):
        if channels_once and channels_once not in seen:
            seen.append(channels_once)
            rematerialised = with_channels_once(graph, channels_once)
            left = budget - macs(rematerialised) + macs(graph)
            shared = shared_in(rematerialised, file_order(rematerialised), parts=False)
            for order in orders_of(rematerialised, shared, FEW_SETS, streams):
                yield source(space(rematerialised, order, shared, budget=left), left, channels_once=channels_once)


def _given(
    graph: Graph,
    schedule: str,
    unfused: Sequence[_Source],
    space: Callable[..., Space],
    *,
    streams: StreamedIO,
    budget: int,
) -> list[_Source]:
    """Return the spaces whose stages are those of another planner, or where these need more than the ops one by one, these."""
    name, grid, layers = _named(schedule)
    found = list[_Source]()
    for each in unfused:
        if each.inside or not each.overlap:
            continue
        row_graph, order, owner = each.space.row_graph, each.space.order, each.space.owner
        shared = shared_in(graph, order, parts=False)
        if name == "msf":
            found.append(each._replace(space=space(graph, order, shared, budget=budget, blocks=True), budget=budget))
            continue
        step_bytes = [each.space.kernels[index][0].alone for index in order]
        if name == "patch":
            partition = patches(row_graph, order, owner, step_bytes, budget=budget, grid=grid, layers=layers, byte_limit=NEVER)
        else:
            partition = first_rows(row_graph, order, owner, step_bytes, byte_limit=NEVER)
        if not partition.stages and not streams.streamed_inputs:
            partition = partition._replace(stages=one_by_one(order))  # in which an output can be handed out too
        if any(is_fused(row_graph, ops) for ops in partition.stages):
            found.append(each._replace(space=space(graph, order, shared, budget=budget, partition=partition), budget=NEVER))
    if not found and any(streams):
        raise CompileError("this schedule finds no stages by rows, which streamed inputs need", "use --schedule best")
    is_given = bool(grid or layers)

    def least(sources: Sequence[_Source]) -> int:
        best = Trade([(source.space, source.budget) for source in sources]).least_bytes()
        return NEVER if best is None else best.path.bytes

    return found if found and (is_given or any(streams) or least(found) < least(unfused)) else list(unfused)


def front(
    graph: Graph,
    memory: str = "sram",
    *,
    core: str = "",
    stream_inputs: bool = False,
    stream_outputs: bool = False,
    max_mac_overhead: float | None = None,
    flash: int | None = None,
    other_flash: int | None = None,
    progress: Progress | None = None,
) -> list[Plan]:
    """Return the plans of schedule `best` of which none needs as little memory and as few cycles as another, the fewest cycles
    first.

    They are what `plan` chooses from; of more than MOST_POINTS those are left out that save least. All lie in one `memory`.
    `progress` is told of each plan.
    """
    streams = _streamed_io(graph, "best", stream_inputs=stream_inputs, stream_outputs=stream_outputs)
    kernels = _kernels(graph, core, flash, other_flash)
    sources = _sources(graph, "best", memory, streams, kernels, overhead=max_mac_overhead, fast=False)
    trade = Trade([(source.space, source.budget) for source in sources])
    found = trade.front()
    if not found:
        raise not_by_rows(sources[-1].space.row_graph, sources[-1].space.order)
    plans = list[Plan]()
    for number, each in enumerate(most_distinct(found, MOST_POINTS)):
        if progress:
            progress("plans of the front", number, len(found))
        placed = sources[each.space].laid_out(each)
        if each is found[-1]:
            placed, _ = _placed_better(sources, trade, placed, each)
        made = finish(placed, sources[each.space].channels_once)
        if not _works_too_much(graph, made, max_mac_overhead) and (not plans or made.arena[memory] < plans[-1].arena[memory]):
            plans.append(made)
    if not plans:
        raise _too_little_work(max_mac_overhead)
    return plans
