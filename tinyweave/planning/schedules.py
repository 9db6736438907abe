"""The schedules: which spaces of plans each one has. In: a Graph, a schedule's name, kernels, what comes and goes by rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from ..ir import CompileError, Graph
from ..kernels.table import ASKED_FOR, BY_NAME
from ..ops import macs
from .alias.overlap import ANY_DISTANCE, shared_in
from .assemble import NO_OVERLAP, PlacedLayout, draft, lay_out, one_by_one
from .fuse.access import RowGraph, streamable_outputs
from .fuse.baselines import first_rows, patches
from .fuse.rematerialise import with_channels_once
from .fuse.schedule import is_fused
from .fuse.stages import NEVER
from .kernel_choice import FOR_ALL, Kernels, variants_in
from .order.search import MOST_SETS, file_order
from .place.place import TRIES
from .trade.channels_once import best_channels_once
from .trade.choose import Found, Trade
from .trade.space import Space
from .trade.spaces import StreamedIO, orders_of, space_of

SCHEDULES = ("best", "unfused", "layer", "patch", "msf", "stream2d")
RECOMPUTING = ("patch", "msf")  # compute rows and columns again, as many as they like if no limit is given
OVERHEADS = (1.05, 1.1, 1.2, 1.3, 1.5, 2.0)  # for which maps that are computed twice are chosen, besides the most allowed
ROUNDING = 1e-6  # multiply-accumulates; of a quotient of two counts
FEW_SETS = 500  # of ops, looked at for an order in a few milliseconds


def streamed_io(graph: Graph, schedule: str, *, stream_inputs: bool, stream_outputs: bool) -> StreamedIO:
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


def _named(schedule: str) -> tuple[str, int, int]:
    """Return the name of a schedule, and of patches how many a side and of how many layers, 0 where that is searched."""
    name, *numbers = schedule.split(":")
    if name not in SCHEDULES:
        raise CompileError(f"unknown schedule '{schedule}'", f"schedules are: {', '.join(SCHEDULES)}")
    if numbers and (name != "patch" or len(numbers) > 2 or not all(n.isdecimal() and int(n) != 1 for n in numbers)):
        raise CompileError(f"unknown schedule '{schedule}'", "patch:N:K is N x N patches of the first K layers, from 2 on")
    grid, layers = (*map(int, numbers), 0, 0)[:2]
    return name, grid, layers


def _plain_rows(graph: Graph) -> RowGraph:
    """Return the graph as rows, with the kernels for all cores."""
    return RowGraph(graph, variants_in(graph, shared_in(graph, file_order(graph), parts=False)))


class PlanSpace(NamedTuple):
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

    def laid_out(self, found: Found) -> PlacedLayout:
        """Return the placed buffers of a path, with moves between steps where less is needed so."""
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
        return draft(layout, moves=self.overlap and not self.fast, tries=0 if self.fast else TRIES)


def _with_names(graph: Graph, kernels: Sequence[Kernels], names: Mapping[int, str]) -> Kernels:
    """Return the kernels with which each op has the one of this name."""
    if len(kernels) == 1:
        return kernels[0]
    fast, portable_ops, asked_for = kernels[1], set[str](), {which: set[str]() for which in ASKED_FOR}
    for index, name in names.items():
        op = graph.ops[index]
        if not name or name == fast.name(graph, op):
            portable_ops |= {op.name} & fast.portable_ops
        elif name == FOR_ALL.name(graph, op):
            portable_ops.add(op.name)
        else:
            asked_for[next(which for which in ASKED_FOR if getattr(BY_NAME[name], which))].add(op.name)
    return Kernels(
        fast.core, frozenset(portable_ops), reads=fast.reads, **{which: frozenset(ops) for which, ops in asked_for.items()}
    )


def _recomputed(graph: Graph, schedule: str, overhead: float | None) -> int:
    """Return how many multiply-accumulates a schedule may do again."""
    if overhead is None:
        return NEVER if _named(schedule)[0] in RECOMPUTING else 0
    return more_work(macs(graph), overhead)


def more_work(macs: int, overhead: float) -> int:
    """Return the multiply-accumulates that may be done again of so many."""
    if not (overhead > 0 and math.isfinite(overhead * max(macs, 1))):
        raise CompileError(f"a network cannot run with {overhead:g} times its work", "give 1.0 or more, for example 1.1")
    return max(times(macs, overhead) - macs, 0)


def times(macs: int, overhead: float) -> int:
    """Return so many times some multiply-accumulates, whatever the rounding of a count by another."""
    return math.floor(overhead * macs + ROUNDING)


def work(graph: Graph, overhead: float) -> int:
    """Return so many times the multiply-accumulates of a graph."""
    return times(macs(graph), overhead)


class Spaces:
    """The spaces of a graph's plans with these kernels, by schedule; what several schedules have is made once, when it is first
    asked for."""

    def __init__(self, graph: Graph, memory: str, streams: StreamedIO, kernels: Sequence[Kernels], *, fast: bool) -> None:
        self.graph, self.streams, self.fast = graph, streams, fast
        self._plan_space = partial(PlanSpace, memory=memory, kernels=kernels, streams=streams, fast=fast)
        self._space = partial(space_of, kernels=kernels, streams=streams, has_cycles=not fast or len(kernels) > 1)
        self._apart, self._inside = (shared_in(graph, file_order(graph), parts=parts) for parts in (False, True))
        self._has_inside = bool(self._inside.free) and not any(streams)
        self._known: dict[tuple[str, float | None], list[PlanSpace]] = {}

    def of(self, schedule: str, overhead: float | None) -> list[PlanSpace]:
        """Return the spaces of a schedule's plans."""
        if (schedule, overhead) not in self._known:
            self._known[schedule, overhead] = self._of(schedule, overhead)
        return self._known[schedule, overhead]

    def _of(self, schedule: str, overhead: float | None) -> list[PlanSpace]:
        name, budget = _named(schedule)[0], _recomputed(self.graph, schedule, overhead)
        if name == "layer":
            return [self._layer]
        if name == "best" and (any(self.streams) or not self.fast):
            apart = (self._space(self.graph, order, self._apart, budget=budget) for order in self._orders)
            fused = [self._plan_space(space, budget) for space in apart]
            return [*self._whole, *fused, *self._rematerialised(overhead, budget)]
        unfused = [*self._whole, *([] if self.fast and self._has_inside else self._unfused)]
        return unfused if name in {"best", "unfused"} else self._given(schedule, unfused, budget)

    @cached_property
    def _layer(self) -> PlanSpace:
        """Return the space in which the ops run in the file's order and no output overlaps operands."""
        space = self._space(self.graph, file_order(self.graph), self._apart, overlap=False, budget=0, fuses=False)
        return self._plan_space(space, 0, overlap=False)

    @cached_property
    def _whole(self) -> list[PlanSpace]:
        """Return the spaces in which no map is cut: what must not overlap is sometimes placed better."""
        whole, sets = list[PlanSpace]() if any(self.streams) else [self._layer], FEW_SETS if self.fast else MOST_SETS
        for order in orders_of(self.graph, self._inside, sets, self.streams) if self._has_inside else ():
            space = self._space(self.graph, order, self._inside, budget=0, fuses=False)
            whole.append(self._plan_space(space, 0, inside=True))
        return whole

    @cached_property
    def _orders(self) -> Sequence[tuple[int, ...]]:
        """Return the orders of ops whose tensors lie apart from each other."""
        sets = FEW_SETS if self.fast else MOST_SETS
        return orders_of(self.graph, self._apart, sets // 5 if self._has_inside else sets, self.streams)

    @cached_property
    def _unfused(self) -> list[PlanSpace]:
        """Return the spaces of these orders in which the ops run one by one."""
        spaces = (self._space(self.graph, order, self._apart, budget=0, fuses=False) for order in self._orders)
        return [self._plan_space(space, 0) for space in spaces]

    def _rematerialised(self, overhead: float | None, budget: int) -> Iterator[PlanSpace]:
        """Yield the spaces in which some maps are computed twice, as is best for some amounts of work up to the budget."""
        if not budget or overhead is None:
            return
        graph, streams = self.graph, self.streams
        budgets = [_recomputed(graph, "best", each) for each in (*(x for x in OVERHEADS if x < overhead), overhead)]
        seen = list[Mapping[str, int]]()
        for channels_once in best_channels_once(graph, streams.streamed_inputs, budgets):
            if channels_once and channels_once not in seen:
                seen.append(channels_once)
                rematerialised = with_channels_once(graph, channels_once)
                left = budget - macs(rematerialised) + macs(graph)
                shared = shared_in(rematerialised, file_order(rematerialised), parts=False)
                for order in orders_of(rematerialised, shared, FEW_SETS, streams):
                    space = self._space(rematerialised, order, shared, budget=left)
                    yield self._plan_space(space, left, channels_once=channels_once)

    def _given(self, schedule: str, unfused: list[PlanSpace], budget: int) -> list[PlanSpace]:
        """Return the spaces whose stages are those of another planner, or where these need more than the ops one by one, those
        of the ops."""
        name, grid, layers = _named(schedule)
        found, space = list[PlanSpace](), partial(self._space, self.graph)
        for each in unfused:
            if each.inside or not each.overlap:
                continue
            row_graph, order, owner = each.space.row_graph, each.space.order, each.space.owner
            shared = shared_in(self.graph, order, parts=False)
            if name == "msf":
                found.append(each._replace(space=space(order, shared, budget=budget, blocks=True), budget=budget))
                continue
            step_bytes = [each.space.kernels[index][0].alone for index in order]
            if name == "patch":
                partition = patches(row_graph, order, step_bytes, budget=budget, grid=grid, layers=layers)
            else:
                partition = first_rows(row_graph, order, owner, step_bytes)
            if not partition.stages and not self.streams.streamed_inputs:
                partition = partition._replace(stages=one_by_one(order))  # in which an output can be handed out too
            if any(is_fused(row_graph, ops) for ops in partition.stages):
                found.append(each._replace(space=space(order, shared, budget=budget, partition=partition), budget=NEVER))
        if not found and any(self.streams):
            raise CompileError("this schedule finds no stages by rows, which streamed inputs need", "use --schedule best")
        is_given = bool(grid or layers)
        return found if found and (is_given or any(self.streams) or least_bytes(found) < least_bytes(unfused)) else unfused


def trade_of(spaces: Sequence[PlanSpace]) -> Trade:
    """Return the trade of bytes for cycles in these spaces."""
    return Trade([(each.space, each.budget) for each in spaces])


def least_bytes(spaces: Sequence[PlanSpace]) -> int:
    """Return bytes of memory that no plan of these spaces needs less than; NEVER where there is no plan."""
    found = trade_of(spaces).least_bytes()
    return NEVER if found is None else found.path.bytes
