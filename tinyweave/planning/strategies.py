"""Strategies: the plan spaces that each strategy searches. In: a Graph, a strategy, kernels, streams. Out: plan spaces.

A plan space holds all ways to split one order of the ops into stages. A strategy is `best`, `unfused`, `layer`, or that of
another planner: `patch`, `patch:N:K`, `msf`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np

from ..ir import CompileError, Graph
from ..ops import macs
from .alias.overlap import ANY_DISTANCE, shared_in
from .alias.subtensors import Aliases
from .assemble import NO_OVERLAP, lay_out, place_layout, unfused_stages
from .fuse.other_planners import patches
from .fuse.rematerialise import with_channels_once
from .fuse.row_access import RowGraph, StreamedIO, streamable_outputs
from .fuse.row_schedule import is_fused
from .kernel_choice import KernelRule, variants_in
from .order.order_search import MOST_SETS, file_order
from .place.place import TRIES
from .plan import Plan, Stage
from .request import Request
from .search.channels_once import Known, best_channels_once
from .search.of_graph import problem_of
from .search.orders import orders_of, stage_cycles_of
from .search.pareto import NO_CAPS, Fastest, fastest_of, least_bytes
from .search.path_search import ChosenStage, PathSearch, Solution
from .search.problem import NEVER
from .search.stage_cycles import StageCycles

STRATEGIES = ("best", "unfused", "layer", "patch", "msf")
RECOMPUTING = ("patch", "msf")  # may recompute without limit if the request sets none
OVERHEADS = (1.05, 1.1, 1.2, 1.3, 1.5, 2.0)  # MAC limits of rematerialisation to try below the request's
ROUNDING = 1e-6  # multiply-accumulates; a limit may be a quotient of two counts
FEW_SETS = 500  # sets of ops that a short search for an order looks at, in a few milliseconds


def streamed_io(graph: Graph, request: Request) -> StreamedIO:
    """Return which network inputs and outputs the request streams row by row; inputs that no op reads are left out.

    Raise CompileError if the strategy cannot stream, no output can be streamed, all of the graph is constant, or a constant
    output has infinite or NaN elements.
    """
    name = _parsed(request.strategy)[0]
    for what, is_wanted in (("inputs", request.stream_inputs), ("outputs", request.stream_outputs)):
        if is_wanted and name in ("layer", "unfused"):
            raise CompileError(f"schedule {request.strategy} cannot stream {what}", "use --schedule best")
    for output in graph.outputs:
        data = graph.tensors[output].data
        if data is not None and not np.isfinite(data).all():
            raise CompileError("is a constant output that is not a number", "remove it from the model", tensor=output)
    if all(tensor.data is not None for tensor in graph.tensors.values()):
        raise CompileError(f"graph '{graph.name}' computes nothing: all of it is constant", "give a network with an input")
    streamed_outputs: tuple[str, ...] = ()
    if request.stream_outputs:
        portable = variants_in(graph, shared_in(graph, file_order(graph), parts=False))
        streamed_outputs = streamable_outputs(RowGraph(graph, portable))
        if not streamed_outputs:
            why = "none is a map of several rows that a layer computes by rows and that nothing in the network reads"
            raise CompileError(f"cannot hand out a network output row by row: {why}", "plan without streamed outputs")
    read_inputs = tuple(name for name in graph.inputs if name in graph.consumers)
    return StreamedIO(read_inputs if request.stream_inputs else (), streamed_outputs)


def _parsed(strategy: str) -> tuple[str, int, int]:
    """Split a strategy such as "patch:4:10" into name, patches per side (4) and layers (10); 0 if missing: search them."""
    name, *numbers = strategy.split(":")
    if name not in STRATEGIES:
        raise CompileError(f"unknown schedule '{strategy}'", f"schedules are: {', '.join(STRATEGIES)}")
    if numbers and (name != "patch" or len(numbers) > 2 or not all(n.isdecimal() and int(n) != 1 for n in numbers)):
        raise CompileError(f"unknown schedule '{strategy}'", "patch:N:K is N x N patches of the first K layers, from 2 on")
    grid, layers = (*map(int, numbers), 0, 0)[:2]
    return name, grid, layers


@dataclass(frozen=True, eq=False)
class PlanSpace:
    """All solutions (splits into stages) of one order of the ops with one kernel set, and how to give their buffers offsets.

    If `nested`, outputs of splits and slices are part of their input's buffer, and inputs of concatenations part of their
    output's. If not `overlap`, no output overlaps an operand of its op. If `fast`, placement is greedy and no tensor is
    relocated. `plans` caches the results of `lay_out`.
    """

    search: PathSearch
    cycles_of: StageCycles
    kernel_set: Sequence[KernelRule]
    streams: StreamedIO
    nested: bool = False
    overlap: bool = True
    fast: bool = False
    channels_once: Mapping[str, int] = field(default_factory=dict)  # map -> leading channels computed once, others twice
    plans: dict[tuple[Sequence[ChosenStage], bool], list[Plan]] = field(default_factory=dict, init=False)

    def lay_out(self, solution: Solution, *, relocates: bool = True) -> list[Plan]:
        """Return the unchecked plan of a solution and, if it relocates (`relocates`), the one without relocations; cached."""
        stages, key = solution.stages, (solution.stages, relocates)
        if key not in self.plans:
            graph = self.cycles_of.row_graph.graph
            kernels = self.kernel_set[0]
            if len(self.kernel_set) > 1:
                chosen = ((i, name) for stage in stages for i, name in zip(stage.ops, stage.kernels, strict=True) if name)
                kernels = self.kernel_set[1]._replace(named=frozenset((graph.ops[i].name, name) for i, name in chosen))
            layout = lay_out(
                graph,
                [stage.ops for stage in stages],
                shared_in(graph, self.search.order, parts=self.nested),
                tiles=tuple(tile for stage in stages for tile in stage.tiles),
                kernels=kernels,
                max_distance=ANY_DISTANCE if self.overlap else NO_OVERLAP,
                streams=self.streams,
            )
            tries, moves = 0 if self.fast else TRIES, self.overlap and relocates and not self.fast
            plans = place_layout(layout, moves=moves, tries=tries)
            self.plans[key] = [replace(plan, channels_once=self.channels_once) for plan in plans]
        return self.plans[key]


def recomputable_macs(macs: int, overhead: float) -> int:
    """Return how many multiply-accumulates a plan may recompute if it may execute `overhead` times the network's `macs`.

    The result is 0 if `overhead` is below 1. Raise CompileError if `overhead` is not above 0, or not finite.
    """
    if not (overhead > 0 and math.isfinite(overhead * max(macs, 1))):
        raise CompileError(f"a network cannot run with {overhead:g} times its work", "give 1.0 or more, for example 1.1")
    return max(scaled_macs(macs, overhead) - macs, 0)


def scaled_macs(macs: int, overhead: float) -> int:
    """Return `overhead` times `macs`, rounded down to whole multiply-accumulates."""
    return math.floor(overhead * macs + ROUNDING)


# a graph that computes some channels of maps twice, how many it computes once (map -> channels), its aliases, its orders
Rematerialised = tuple[Graph, Mapping[str, int], Aliases, Sequence[tuple[int, ...]]]
KernelSet = tuple[KernelRule, ...]


@dataclass(frozen=True, eq=False)
class PlanSpaces:
    """The plan spaces of a graph, built on first use and shared by all searches for plans of the graph.

    A plan space has all splits of one order of the ops into stages, with one kernel set: the kernels that each op may use. The
    orders, and which tensors share memory, are the same for all kernel sets. "Nested" are outputs of splits and slices inside
    their input, and inputs of concatenations inside their output. If `fast`, orders are searched only briefly, and strategy
    `best` fuses ops only to stream inputs or outputs.
    """

    graph: Graph
    streams: StreamedIO
    fast: bool = False
    known: dict[tuple[KernelSet, str, float | None], list[PlanSpace]] = field(default_factory=dict)  # by arguments of `of`
    _channels: Known = field(default_factory=lambda: ({}, {}))
    _rematerialised: dict[frozenset[tuple[str, int]], Rematerialised] = field(default_factory=dict)

    def of(self, kernel_set: KernelSet, strategy: str, overhead: float | None = None) -> list[PlanSpace]:
        """Return the plan spaces of a strategy, whose plans execute at most `overhead` times the MACs of the network.

        None allows no recomputation, except for the strategies in RECOMPUTING, whose recomputation is then unlimited.
        """
        key, name = (kernel_set, strategy, overhead), _parsed(strategy)[0]
        if key in self.known:
            return self.known[key]
        budget = NEVER if name in RECOMPUTING else 0
        if overhead is not None:
            budget = recomputable_macs(macs(self.graph), overhead)
        space_of = partial(self._space, kernel_set, self.graph)
        if name == "layer":
            spaces = [space_of(file_order(self.graph), self.aliases, overlap=False, fuses=False)]
        elif name == "best" and (any(self.streams) or not self.fast):
            spaces = [*self._whole(kernel_set), *(space_of(order, self.aliases, budget=budget) for order in self.orders)]
            spaces += self._rematerialised_spaces(kernel_set, overhead, budget)
        elif name in {"best", "unfused"}:
            orders = [] if self.fast and self.has_nested else self.orders
            spaces = [*self._whole(kernel_set), *(space_of(order, self.aliases, fuses=False) for order in orders)]
        else:
            spaces = self._of_baseline(kernel_set, strategy, budget)
        self.known[key] = spaces
        return spaces

    @cached_property
    def aliases(self) -> Aliases:
        """Return which tensors share memory if none are nested, except for rows of a streamed window in their state."""
        return shared_in(self.graph, file_order(self.graph), parts=False)

    @cached_property
    def nested_aliases(self) -> Aliases:
        """Return which tensors share memory if tensors are nested."""
        return shared_in(self.graph, file_order(self.graph), parts=True)

    @cached_property
    def has_nested(self) -> bool:
        """Return whether more tensors can be nested than in `aliases`. If inputs or outputs are streamed, they cannot."""
        return self.nested_aliases.free != self.aliases.free and not any(self.streams)

    @cached_property
    def orders(self) -> Sequence[tuple[int, ...]]:
        """Return the orders to search without nested tensors: the one found with the least peak RAM, then the file's."""
        sets = FEW_SETS if self.fast else MOST_SETS
        return orders_of(self.graph, self.aliases, sets // 5 if self.has_nested else sets, self.streams)

    @cached_property
    def nested_orders(self) -> Sequence[tuple[int, ...]]:
        """Return the orders to search with nested tensors; empty if there are none."""
        sets = FEW_SETS if self.fast else MOST_SETS
        return orders_of(self.graph, self.nested_aliases, sets, self.streams) if self.has_nested else ()

    def _space(
        self,
        kernel_set: KernelSet,
        graph: Graph,
        order: tuple[int, ...],
        shared: Aliases,
        *,
        overlap: bool = True,
        nested: bool = False,
        channels_once: Mapping[str, int] = MappingProxyType({}),
        **fusion: Any,
    ) -> PlanSpace:
        """Return the plan space of one order of the ops of `graph`, which is the network or one with rematerialised tensors.

        `shared` says which tensors share memory. `overlap`, `nested` and `channels_once` are fields of PlanSpace. `fusion` are
        keywords of problem_of, which say which fused stages are searched.
        """
        has_cycles = not self.fast or len(kernel_set) > 1
        cycles_of = stage_cycles_of(
            graph, order, shared, kernels=kernel_set, streams=self.streams, overlap=overlap, has_cycles=has_cycles
        )
        return PlanSpace(
            PathSearch(problem_of(cycles_of, order, shared.owner, **fusion)),
            cycles_of,
            kernel_set,
            self.streams,
            nested=nested,
            overlap=overlap,
            fast=self.fast,
            channels_once=channels_once,
        )

    def _whole(self, kernel_set: KernelSet) -> list[PlanSpace]:
        """Return plan spaces without fusion: `layer`, and one per searched order of the ops; none if the request streams."""
        key = kernel_set, "nested", None
        if key not in self.known:
            space_of = partial(self._space, kernel_set, self.graph, nested=True, fuses=False)
            self.known[key] = [space_of(order, self.nested_aliases) for order in self.nested_orders]
        return [*([] if any(self.streams) else self.of(kernel_set, "layer")), *self.known[key]]

    def _rematerialised_spaces(self, kernel_set: KernelSet, overhead: float | None, budget: int) -> Iterator[PlanSpace]:
        """Yield plan spaces of graphs that compute some channels of maps twice, chosen to save most RAM within a limit of MACs.

        The limits are `overhead` times the network's MACs, and the smaller ones of OVERHEADS. There are no such spaces if
        `overhead` is None or allows no recomputation. `budget` is the number of MACs that `overhead` allows to recompute. A
        graph that is best for several limits is searched once.
        """
        if not budget or overhead is None:
            return
        work = macs(self.graph)
        budgets = [recomputable_macs(work, each) for each in (*(x for x in OVERHEADS if x < overhead), overhead)]
        found = best_channels_once(self.graph, self.streams.streamed_inputs, budgets, self._channels)
        for key in dict.fromkeys(frozenset(once.items()) for once in found if once):
            if key not in self._rematerialised:
                graph = with_channels_once(self.graph, dict(key))
                aliases = shared_in(graph, file_order(graph), parts=False)
                self._rematerialised[key] = graph, dict(key), aliases, orders_of(graph, aliases, FEW_SETS, self.streams)
            graph, once, aliases, orders = self._rematerialised[key]
            for order in orders:
                yield self._space(kernel_set, graph, order, aliases, budget=budget - macs(graph) + work, channels_once=once)

    def _of_baseline(self, kernel_set: KernelSet, strategy: str, budget: int) -> list[PlanSpace]:
        """Return the plan spaces with the fused stages of a published planner, or unfused ones that need no more RAM.

        The RAM is `least_ram`, a lower bound. If `strategy` has patch numbers or the plan streams, the spaces with fused
        stages are returned even if they save no RAM. `budget` is the number of multiply-accumulates that fused stages may
        recompute. Raise CompileError if the plan streams, but this strategy has no fused stages for the network.
        """
        name, grid, layers = _parsed(strategy)
        unfused, spaces = self.of(kernel_set, "unfused"), list[PlanSpace]()
        for each in unfused:
            if each.nested or not each.overlap:
                continue
            row_graph, order = each.cycles_of.row_graph, each.search.order
            shared = shared_in(self.graph, order, parts=False)
            space_of = partial(self._space, kernel_set, self.graph, order, shared)
            if name == "msf":
                spaces.append(space_of(budget=budget, one_tile_per_stage=True))
                continue
            step_bytes = [each.cycles_of.kernels[index][0].unfused_bytes for index in order]
            stages = patches(row_graph, order, step_bytes, budget=budget, grid=grid, layers=layers)
            if not stages and not self.streams.streamed_inputs:
                stages = [Stage(ops) for ops in unfused_stages(order)]  # a single op can stream its output too
            if any(is_fused(row_graph, stage.ops) for stage in stages):
                spaces.append(space_of(budget=NEVER, partition=stages))
        is_required = bool(grid or layers) or any(self.streams)
        if not spaces and any(self.streams):
            raise CompileError("this schedule finds no stages by rows, which streamed inputs need", "use --schedule best")
        return spaces if spaces and (is_required or least_ram(spaces) < least_ram(unfused)) else unfused


def fastest_in(spaces: Sequence[PlanSpace], caps: Mapping[int, int] = NO_CAPS) -> Fastest:
    """Return a function: byte limit -> the fastest solution of these spaces. `caps`: number of a space -> its own limit."""
    return partial(fastest_of, [space.search for space in spaces], caps=caps)


def least_ram(spaces: Sequence[PlanSpace]) -> int:
    """Return a lower bound in bytes on the RAM of all plans in these spaces; NEVER (infinity) if there is no plan."""
    solution = least_bytes(fastest_in(spaces))
    return NEVER if solution is None else solution.bytes
