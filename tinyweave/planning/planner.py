"""The planner. In: a Graph and a schedule's name. Out: a checked Plan, the one that is wanted of those that it can make."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import NamedTuple

from ..ir import CompileError, Graph
from ..kernels.layer_cycles import FlashReads, layer_cycles
from ..progress import Progress
from .alias.subtensors import ALIGN
from .assemble import PlacedLayout, finish
from .check import check
from .fuse.schedule import plan_macs
from .fuse.stages import NEVER, not_by_rows
from .kernel_choice import Kernels
from .kernels.cycles import cycles_to_compare
from .kernels.flash_budget import FlashLimit, OtherFlash, constant_bytes, kept_kernels, kernel_ladder, most_constants
from .memories import divided
from .place.relocation_ops import is_move
from .plan import Plan
from .schedules import PlanSpace, Spaces, least_bytes, streamed_io, trade_of, work
from .trade.choose import COSTS, Aim, Found, Trade, most_distinct
from .trade.spaces import StreamedIO
from .trade.stage_cycles import StageCycles

MOST_POINTS = 24  # of a front: more are hard to read
MOST_RUNGS = 6  # of the ladder of kernels, likewise
SLACK = 0.01  # of the bytes of a path, that its placement may need besides without a look at other paths
MOST_LAYOUTS = 8  # of paths that should fit and do not when they are laid out


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
    other_flash: OtherFlash | None = None,
    reads: FlashReads | None = None,
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
    flash: bytes for constants and for `other_flash`, all else in Flash (estimated if left out). A plan that fits without this
    limit is the plan with it; else ops go without kernels that keep more constants than others until it fits.
    reads: how the device reads its Flash; None: it answers at once.
    progress: called for each plan that is laid out.

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
        reads=reads,
    )
    aim = aim or ("balanced" if core else "size")
    return choices.plan(aim, maps=maps, ram_limit=ram_limit, cycle_limit=cycle_limit, progress=progress)


KnownSpaces = dict[tuple[Graph, str, StreamedIO, tuple[Kernels, ...], bool], Spaces]
"""Spaces by what they are made of."""


class Choices:
    """What `plan` chooses from, so that it can be asked for several limits. The options are those of `plan`; known: spaces that
    other choices have made; those that are made here join them. They change no answer."""

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
        other_flash: OtherFlash | None = None,
        reads: FlashReads | None = None,
        known: KnownSpaces | None = None,
    ) -> None:
        streams = streamed_io(graph, schedule, stream_inputs=stream_inputs, stream_outputs=stream_outputs)
        self.graph, self.schedule, self.overhead = graph, schedule, max_mac_overhead
        self.flash = None if flash is None else FlashLimit(flash, other_flash)
        self.ladder = kernel_ladder(graph, core, reads)
        self._known = {} if known is None else known
        self._memory, self._streams, self._fast = memory, streams, fast

    def spaces(self, rung: int = -1) -> list[PlanSpace]:
        """Return the spaces of plans with the kernels of a rung, left out with all."""
        kernels = tuple(self.ladder[rung])
        made_of = self.graph, self._memory, self._streams, kernels, self._fast
        if made_of not in self._known:
            self._known[made_of] = Spaces(self.graph, self._memory, self._streams, kernels, fast=self._fast)
        return self._known[made_of].of(self.schedule, self.overhead)

    @cached_property
    def least_bytes(self) -> int:
        """Return bytes of memory that no plan needs less than; NEVER where there is no plan."""
        return least_bytes(self.spaces())

    def _within_flash(self, choose: Callable[[list[PlanSpace]], Plan]) -> Plan:
        """Return the plan that is chosen with all kernels, or where it does not fit into Flash, with those of the highest rung
        that fits of those that are foreseen to; with those of the lowest rung where nothing fits.

        Foreseen are the kernels that were chosen out of all, without those that a rung has not. A looser limit begins no lower
        on the ladder, and so does not end lower.
        """
        planned = choose(self.spaces())
        if self.flash is None or self.flash.holds(planned.graph, planned.variants):
            return planned
        chosen = {op.name: name for op, name in zip(planned.graph.ops, planned.variants, strict=True)}
        foreseen = (kept_kernels(self.graph, kernels, chosen) for kernels in self.ladder[:-1])
        within = [rung for rung, variants in enumerate(foreseen) if self.flash.holds(self.graph, variants)]
        for rung in range(max(within, default=0), -1, -1):
            planned = choose(self.spaces(rung))
            if self.flash.holds(planned.graph, planned.variants):
                break
        return planned

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
        choose = partial(
            _chosen,
            aim=aim,
            byte_limit=max(limits, default=NEVER),
            cycle_limit=NEVER if cycle_limit is None else cycle_limit,
            checked=False,
            progress=progress,
        )
        planned = self._within_flash(choose)
        if checked and not maps:
            planned = check(planned)
        if _works_too_much(self.graph, planned, self.overhead):
            raise _too_little_work(self.overhead)
        return divided(planned, maps, overlap=self.schedule != "layer", checked=checked) if maps else planned

    def front(self, progress: Progress | None = None, *, checked: bool = True) -> list[Plan]:
        """Return the plans that the function `front` returns; not `checked`, they are to be judged and not to be used."""
        plans = self._front(progress)
        if self.flash is not None and not all(self.flash.holds(made.graph, made.variants) for made in plans):
            plans = self._lighter(plans, self.flash)
        return [check(made) for made in plans] if checked else plans

    def by_flash(self, ram_limit: int | None = None, progress: Progress | None = None) -> list[Plan]:
        """Return plans of which none needs as few constants in Flash and as few cycles as another, the fewest cycles first.

        They are what `plan` chooses by speed with the kernels of some rungs of the ladder, between which constants rise evenly.
        """
        sizes, chosen = [most_constants(self.graph, rung) for rung in self.ladder], list[Plan]()
        wanted = [sizes[0] + (sizes[-1] - sizes[0]) * number // (MOST_RUNGS - 1) for number in range(MOST_RUNGS)]
        rungs = {min(range(len(sizes)), key=lambda rung: (abs(sizes[rung] - size), rung)) for size in wanted}
        for number, rung in enumerate(sorted(rungs, reverse=True)):
            if progress:
                progress("plans by Flash", number, len(rungs))
            limit = NEVER if ram_limit is None else ram_limit
            chosen.append(_chosen(self.spaces(rung), "speed", byte_limit=limit, checked=False))
        chosen = [made for made in chosen if ram_limit is None or _bytes(made) <= ram_limit]
        return [check(made) for made in _undominated(chosen, self._cycles, _constants)]

    def _lighter(self, plans: Sequence[Plan], flash: FlashLimit) -> list[Plan]:
        """Return a front in which, for each plan that does not fit into Flash, stands what `plan` gives in as many bytes."""
        lighter = [
            made if flash.holds(made.graph, made.variants) else self.plan("speed", ram_limit=_bytes(made), checked=False)
            for made in plans
        ]
        return _undominated(lighter, self._cycles, _bytes)

    def _cycles(self, plan: Plan) -> int:
        """Return the cycles by which plans are compared; all need 0 where none are known."""
        by = self.spaces()[0].space.cycles_of
        return round(cycles_to_compare(plan, by.core, by.reads)) if by.core else 0

    def _front(self, progress: Progress | None) -> list[Plan]:
        """Return the plans of the front with all kernels, not checked."""
        spaces = self.spaces()
        trade = trade_of(spaces)
        found = trade.front()
        if not found:
            raise not_by_rows(spaces[-1].space.row_graph, spaces[-1].space.order)
        plans, by, points = list[Plan](), spaces[0].space.cycles_of, list[_Point]()
        chosen = most_distinct(found, MOST_POINTS)
        for number, each in enumerate(chosen):
            if progress:
                progress("plans of the front", number, len(chosen))
            laid = _laid_out(spaces, each)
            points += _placed_better(spaces, trade, laid, each)[0] if each is found[-1] else laid
        for placed, each in _few(points):
            made = finish(placed, spaces[each.space].channels_once, checked=False)
            if not _works_too_much(self.graph, made, self.overhead) and (not plans or _bytes(made) < _bytes(plans[-1])):
                # the search takes the cycles of each call as a whole number, so that plans may differ in its eyes alone
                while by.core and plans and self._cycles(made) <= self._cycles(plans[-1]):
                    plans.pop()
                plans.append(made)
        if not plans:
            raise _too_little_work(self.overhead)
        return plans


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
    streams = streamed_io(graph, schedule, stream_inputs=stream_inputs, stream_outputs=stream_outputs)
    spaces = Spaces(graph, memory, streams, [kernels], fast=False)
    return _chosen(spaces.of(schedule, 1.0), "size", checked=False)


def _chosen(
    spaces: Sequence[PlanSpace],
    aim: Aim,
    *,
    byte_limit: int = NEVER,
    cycle_limit: int = NEVER,
    checked: bool = True,
    progress: Progress | None = None,
) -> Plan:
    """Return the plan that an aim chooses within limits, else the fastest within so many bytes, else the smallest."""
    trade = trade_of(spaces)
    for asked in _asked(trade, aim, byte_limit, cycle_limit):
        best = _best(spaces, trade, *asked, progress=progress)
        if best is not None:
            return finish(best.placed, spaces[best.as_placed.space].channels_once, checked=checked)
    raise not_by_rows(spaces[-1].space.row_graph, spaces[-1].space.order)  # some op cannot take what comes by rows


def _asked(trade: Trade, aim: Aim, byte_limit: int, cycle_limit: int) -> Iterator[tuple[Aim, int, int]]:
    """Yield an aim and its limits of bytes and cycles, then what is wanted where nothing is within the limits before."""
    yield aim, byte_limit, cycle_limit
    if cycle_limit < NEVER and (fastest := trade.best("speed", byte_limit)) is not None:
        yield "speed", byte_limit, fastest.path.cycles  # without moves, which take time
        yield "speed", byte_limit, NEVER
    if byte_limit < NEVER or aim != "size":
        yield "size", NEVER, NEVER


def _best(
    spaces: Sequence[PlanSpace], trade: Trade, aim: Aim, byte_limit: int, cycle_limit: int, *, progress: Progress | None
) -> _Point | None:
    """Return the path that an aim chooses of those that are within limits as they are laid out; None where none is found."""
    whole_words = byte_limit if byte_limit == NEVER else -(-byte_limit // ALIGN) * ALIGN  # paths count these
    cost, limit, allowed = COSTS[aim], whole_words, cycle_limit
    best: _Point | None = None
    trade.caps.clear()
    for number in range(MOST_LAYOUTS):
        found = trade.best(aim, limit, allowed)
        if found is None or (best is not None and cost(found) >= cost(best.as_placed)):
            break
        if progress:
            progress("plans laid out", number, 0)
        points = _laid_out(spaces, found)
        if aim == "size" and cycle_limit == NEVER:
            points, found = _placed_better(spaces, trade, points, found)
        within = [each for each in points if each.placed.bytes <= byte_limit and each.as_placed.path.cycles <= cycle_limit]
        best = min([*within, *([best] if best else [])], key=lambda each: cost(each.as_placed), default=None)
        over = points[0].as_placed.path.cycles - cycle_limit
        if points[0].placed.bytes > byte_limit:  # the next one should need less
            limit = found.path.bytes - 1
        if over > 0:  # moves would take too long: the next one leaves time for them
            allowed = found.path.cycles - over
        if points[0].placed.bytes > byte_limit or over > 0:
            continue
        if best is not None and cost(best.as_placed) <= cost(found):
            break
        trade.caps[found.space] = found.path.bytes - 1  # what needs less, or is of another space, may be placed better
    return best


class _Point(NamedTuple):
    """A path that is laid out. as_placed: the path with the bytes and the cycles that it takes so."""

    placed: PlacedLayout
    as_placed: Found


def _laid_out(spaces: Sequence[PlanSpace], found: Found) -> list[_Point]:
    """Return a path as it is placed; where that moves tensors between steps, then as it is placed without moves."""
    placed, by = spaces[found.space].laid_out(found), spaces[found.space].space.cycles_of
    points = [_Point(placed, _as_placed(placed, found, _cycles_of_moves(placed, by)))]
    return points if placed.unmoved is None else [*points, _Point(placed.unmoved, _as_placed(placed.unmoved, found))]


def _few(points: Sequence[_Point]) -> list[_Point]:
    """Return at most MOST_POINTS of the points, of which none needs as few bytes and cycles as another, the fewest cycles
    first."""
    front = list[_Point]()
    for point in sorted(points, key=lambda point: COSTS["speed"](point.as_placed)):
        if not front or point.placed.bytes < front[-1].placed.bytes:
            front.append(point)
    kept = most_distinct([point.as_placed for point in front], MOST_POINTS)
    return [point for point in front if point.as_placed in kept]


def _placed_better(spaces: Sequence[PlanSpace], trade: Trade, points: list[_Point], found: Found) -> tuple[list[_Point], Found]:
    """Return a path of fewer bytes than one whose placement needs many more than its path: of the paths that need less than it
    the fastest fuse least, and are often placed better."""
    for _ in range(MOST_LAYOUTS):
        path = trade.path(found.space, points[0].placed.bytes - 1)
        if points[0].placed.bytes <= found.path.bytes * (1 + SLACK) or path is None or path == found.path:
            break
        again = Found(found.space, path)
        laid = _laid_out(spaces, again)
        if laid[0].placed.bytes >= points[0].placed.bytes:
            break
        points, found = laid, again
    return points, found


def _as_placed(placed: PlacedLayout, found: Found, moves: int = 0) -> Found:
    """Return what was found with the bytes and the cycles that it takes when it is laid out."""
    return found._replace(path=found.path._replace(bytes=placed.bytes, cycles=found.path.cycles + moves))


def _cycles_of_moves(placed: PlacedLayout, by: StageCycles) -> int:
    """Return the cycles of the moves that placement adds."""
    graph, variants = placed.layout.row_graph.graph, placed.layout.row_graph.variants
    moves = [(op, name) for op, name in zip(graph.ops, variants, strict=True) if is_move(op)]
    known = (layer_cycles(graph, op, name, by.core, reads=by.reads) for op, name in moves)
    return sum(round(cycles) for cycles in known if cycles is not None)


def _bytes(plan: Plan) -> int:
    """Return the bytes of a plan's arenas."""
    return sum(plan.arena.values())


def _constants(plan: Plan) -> int:
    """Return the bytes of Flash that the constants of a plan's kernels need."""
    return constant_bytes(plan.graph, plan.variants)


def _undominated(plans: Sequence[Plan], cycles: Callable[[Plan], int], size: Callable[[Plan], int]) -> list[Plan]:
    """Return the plans of which none needs as few cycles and is as small as another, the fewest cycles first."""
    kept = list[Plan]()
    for made in sorted(plans, key=lambda made: (cycles(made), size(made))):
        if not kept or size(made) < size(kept[-1]):
            kept.append(made)
    return kept


def _works_too_much(graph: Graph, planned: Plan, overhead: float | None) -> bool:
    """Whether a plan executes more than is allowed: with rows left out that nothing needs, that may be less than all."""
    return overhead is not None and overhead < 1 and sum(plan_macs(planned)) > work(graph, overhead)


def _too_little_work(overhead: float | None) -> CompileError:
    return CompileError(f"no plan runs with {overhead:g} times its work", "give 1.0 or more, or see 'plan --pareto'")


def front(
    graph: Graph,
    memory: str = "sram",
    *,
    core: str = "",
    stream_inputs: bool = False,
    stream_outputs: bool = False,
    max_mac_overhead: float | None = None,
    flash: int | None = None,
    other_flash: OtherFlash | None = None,
    reads: FlashReads | None = None,
    progress: Progress | None = None,
) -> list[Plan]:
    """Return the plans of schedule `best` of which none needs as little memory and as few cycles as another, the fewest cycles
    first.

    They are what `plan` chooses from; of more than MOST_POINTS those are left out that save least. All lie in one `memory`.
    `progress` is told of each plan.
    """
    choices = Choices(
        graph,
        "best",
        memory,
        stream_inputs=stream_inputs,
        stream_outputs=stream_outputs,
        max_mac_overhead=max_mac_overhead,
        core=core,
        flash=flash,
        other_flash=other_flash,
        reads=reads,
    )
    return choices.front(progress)
