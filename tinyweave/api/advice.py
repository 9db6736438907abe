"""Search for options, a Flash size or a board with which a plan fits, and for changes of the network that would help.

Combinations of options are tried from few to many changes. A combination whose lower bound on the RAM exceeds the limit is not
planned. The search is limited by the number of tries, not by time, so that its result is deterministic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, islice
from typing import Any, NamedTuple

from .. import planning
from ..devices import Device, all_devices, parse_size
from ..ir import CompileError, Graph
from ..kernels.table import without_kernel
from ..ops import spec_of
from ..planning import Limits, Plan, Progress, Request
from . import models, plans, results

Options = Mapping[str, Any]  # changed options: name on the command line, with _ for -, to value
REQUEST_FIELDS = {  # option -> field of a Request
    "schedule": "strategy",
    "optimize": "objective",
    "max_mac_overhead": "max_mac_overhead",
    "stream_inputs": "stream_inputs",
    "stream_outputs": "stream_outputs",
    "weights": "weights",
}
OVERHEADS = (1.1, 1.2, 1.5)  # MAC overheads, tried last because recomputation is slow to plan and to run
MOST_TRIES = 24  # most combinations of options to plan on the same board
HOPELESS = 2  # stop raising the MAC overhead if the lower bound on the RAM exceeds this multiple of the limit
MOST_BOARDS = 2  # most boards to plan for, per combination of options
TOO_SLOW = 1.5  # skip a board whose time, scaled by its clock, exceeds this multiple of the limit
MOST_PROPOSALS = 4
MOST_CLOSEST = 2  # most proposals if none fits
HEADROOM = 1.25  # factor on the Flash of the smallest kernels, so that faster kernels fit too
LEAST_SIDE = 16  # least rows or columns of a smaller input image, in pixels


@dataclass(frozen=True, eq=False)
class Proposal:
    """A plan of the same model with some options changed."""

    # the changed options, by name; `device` or `flash` is among them if the plan is for another board or Flash limit
    changes: Options
    plan: Plan
    arena: int  # bytes of all its arenas
    need: results.FlashEstimate  # its estimated Flash in bytes
    latency_ms: float | None  # its estimated milliseconds per inference; None if unknown
    fits: bool | None  # whether `tinyweave plan` would say that it fits; None if only a build can tell
    fits_ram: bool  # whether the arena is within the RAM limit
    too_slow: bool = False  # whether the estimated latency exceeds the time limit

    @property
    def rank(self) -> tuple[bool, int, int, int]:
        """Return a sort key, the best proposal first: (whether only a build can tell, kind, number of changes, arena in bytes).

        The kind is 0 if only options change, 1 for another Flash limit, 2 for another board, 3 for both.
        """
        memory = ("device" in self.changes) * 2 + ("flash" in self.changes)
        return self.fits is None, memory, len(self.changes), self.arena


@dataclass(frozen=True, eq=False)
class Remedy:
    """A change of the network, rather than of options, with which a plan could fit."""

    way: str  # "quantize" (4-bit weights), "input" (a smaller input image) or "search" (another network)
    planned: Proposal | None = None  # the plan with 4-bit weights, for "quantize"; None for the others
    share: float | None = None  # for "input", the estimated fraction to keep of each side of the image; else None
    changes: Options = field(default_factory=dict)  # options to change as well


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A combination of changed options, with the model, the request and the search over all plans with it."""

    changes: Options
    model: results.Model
    request: Request  # with the limits and the core of another board if the board changes
    board: Device | None  # None if only a core is known
    known: planning.SpaceCache
    choices: planning.PlanSearch

    @property
    def needs_too_much(self) -> bool:
        """Return whether the lower bound on the RAM exceeds the limit, so that planning would be in vain."""
        most = self.request.limits.bytes
        return most is not None and self.choices.least_bytes > most

    @cached_property
    def proposal(self) -> Proposal | None:
        """Return the plan that `tinyweave plan` would make with these options, unchecked; None if no plan can be made.

        The plan is made when this attribute is first read, then cached.
        """
        try:
            plan = plans.unchecked_plan(self.model, self.request, self.known)
        except CompileError:
            return None
        return _proposal(self.changes, plan, self.board, self.request.limits)


@dataclass
class _Search:
    """The state of one search for advice: the model, its request, and the combinations of options tried so far."""

    model: results.Model
    board: Device | None  # None if only a core is known
    request: Request  # whose plan does not fit
    progress: Progress | None  # called for each try
    known: planning.SpaceCache = field(default_factory=dict)  # for all plans
    models: dict[tuple[str, str], results.Model] = field(default_factory=dict)  # by io and layout
    tried: list[_Candidate] = field(default_factory=list)  # except candidates with another model or Flash limit

    @property
    def limits(self) -> Limits:
        return self.request.limits

    def with_io(self, changes: Options) -> results.Model:
        """Return the model with the options `io` and `layout` in `changes`; each variant is made only once."""
        io, layout = changes.get("io", self.model.io), changes.get("layout", self.model.layout)
        if (io, layout) not in self.models:
            self.models[io, layout] = models.with_io(self.model, io, layout)
        return self.models[io, layout]

    def needs_more(self, changes: Options) -> bool:
        """Return whether, with these changed options, the inputs alone or the outputs alone exceed the RAM limit.

        Inputs or outputs that are streamed row by row do not count.
        """
        graph, request = self.with_io(changes).graph, changed(self.request, changes)
        whole = [
            sum(graph.tensors[name].bytes for name in names)
            for names, by_rows in ((graph.inputs, request.stream_inputs), (graph.outputs, request.stream_outputs))
            if not by_rows
        ]
        return self.limits.ram is not None and max(whole, default=0) > self.limits.ram

    def candidate(self, changes: Options, board: Device | None = None, model: results.Model | None = None) -> _Candidate | None:
        """Return the candidate with these changes, or None if it cannot be planned.

        Candidates of the same model and Flash limit are appended to `tried`.

        Args:
            board: another board, whose limits and core replace the limits and core of the request; None for the same board.
            model: another model, such as one with 4-bit weights; None for the same model.
        """
        if self.progress:
            said = " ".join(f"{name}={value}" for name, value in changes.items())
            self.progress(f"trying {said}".replace("_", "-").replace("=True", ""), len(self.tried), 0)
        target, request = board or self.board, changed(self.request, changes)
        try:
            if board is not None:
                limits = plans.limits_of(board, latency_ms=self.limits.latency_ms)
                request = replace(request, limits=limits, core=board.core)
            elif "flash" in changes:
                request = replace(request, limits=replace(self.limits, flash=parse_size(changes["flash"])))
            planned = model or self.with_io(changes)
            choices = plans.choices(planned, request, self.known)
        except CompileError:
            return None
        candidate = _Candidate(changes, planned, request, target, self.known, choices)
        if model is None and "flash" not in changes:
            self.tried.append(candidate)
        return candidate


def changed(request: Request, changes: Options) -> Request:
    """Return a request with changed options; options that a Request does not have, such as `io`, are ignored."""
    return replace(request, **{REQUEST_FIELDS[name]: value for name, value in changes.items() if name in REQUEST_FIELDS})


class Advice(NamedTuple):
    """The result of `advise` for a plan that does not fit: changed options and changes of the network, the best first.

    `least` has the least bytes of `ram` (arena) and `flash` (constants) that any tried options reach, each by itself, if the
    plan exceeds both limits and nothing that was tried fits; else it is None.
    """

    proposals: list[Proposal]
    remedies: list[Remedy]
    least: dict[str, int] | None


def advise(
    model: results.Model,
    plan: Plan,
    request: Request,
    *,
    board: Device | None,
    flash: int | None = None,
    known: planning.SpaceCache | None = None,
    progress: Progress | None = None,
) -> Advice:
    """Search for changes with which a plan fits that does not.

    Each proposal fits by itself. If the RAM is too small with all options, the proposals need less RAM than `plan`, but do not
    fit. Remedies are added if no options on this board make the plan fit.

    Args:
        flash: measured Flash of the plan in bytes; None before a build.
    """
    search, limits = _Search(model, board, request, progress, {} if known is None else known), request.limits
    search.models[model.io, model.layout] = model
    base = _proposal({}, plan, board, limits)
    if flash is not None:
        base = replace(base, need=results.FlashEstimate(flash, flash, flash))
    # The plan has the objective that exceeds the limits by the least. If its constants exceed the Flash, no options help. Then
    # search for options that meet the RAM limit alone.
    is_flash_enough = not base.need.excess(limits.flash)
    found = [] if base.fits_ram and not is_flash_enough else _search_options(search, base, needs_flash=is_flash_enough)
    done = [each for each in found if each.fits is not False]
    remedies: list[Remedy] = []
    if not done:
        in_ram = min(found, key=lambda each: each.rank, default=base)  # if any was found, only Flash or time is exceeded
        if in_ram.fits_ram and not is_flash_enough:
            remedies += _with_int4_weights(search, in_ram)
            done += _more_flash(search, in_ram)
        remedies += _network_remedies(search, in_ram)
    named = replace(limits, latency_ms=None, clock_hz=None)
    if board is not None and named == plans.device_limits(board):  # users who give limits do not want another board
        for other in (base, _cheapest(search)):
            done += _on_boards(search, other) if other else []
    if base.too_slow and not any(each.fits is not False for each in done):
        done += _more_time(search, base)
    has_both = not base.fits_ram and bool(base.need.excess(limits.flash))
    least = _least(search, base) if has_both and not any(each.fits is not False for each in done) else None
    return Advice(_best(done, search.tried, base), remedies, least)


def _least(search: _Search, base: Proposal) -> dict[str, int]:
    """Return the least arena and the least constants in bytes of the plans that were tried, or that `flash` would minimise."""
    smallest = search.candidate({"optimize": "flash"})
    tried = [*_closest(search.tried)[:MOST_CLOSEST], *([smallest] if smallest else [])]
    found = [base, *(each.proposal for each in tried if each.proposal)]
    return {"ram": min(each.arena for each in found), "flash": min(each.need.constants for each in found)}


def _int4_graph(graph: Graph) -> Graph:
    """Return a graph with 4-bit weights where kernels support them, to plan its size.

    The weights keep only their low 4 bits, so the graph computes wrong outputs.
    """
    small: dict[str, Any] = {}
    for op in graph.ops:
        weights = graph.tensors[op.inputs[1]] if spec_of(op).takes_int4_weights and op.inputs[1] else None
        if weights is None or weights.data is None or weights.dtype != "int8" or len(graph.consumers[weights.name]) > 1:
            continue
        narrow = replace(weights, dtype="int4", data=(weights.data & 15) - 8)
        if narrow.bytes < weights.bytes:
            small[weights.name] = narrow
    for reason in without_kernel(replace(graph, tensors={**graph.tensors, **small})):
        small.pop((reason.op and reason.op.inputs[1]) or "", None)
    return replace(graph, tensors={**graph.tensors, **small})


def _with_int4_weights(search: _Search, start: Proposal) -> list[Remedy]:
    """Return the remedy of 4-bit weights with the options of `start` as a list, empty if the network does not fit then."""
    model = search.with_io(start.changes)
    small = replace(model, graph=_int4_graph(model.graph))
    if search.limits.flash is not None and plans.weight_bytes(small.graph) > search.limits.flash:
        return []  # every plan exceeds the Flash
    candidate = search.candidate(start.changes, model=small)
    return [Remedy("quantize", proposal, changes=start.changes) for proposal in _fitting(candidate, needs_flash=True)]


def _more_flash(search: _Search, start: Proposal) -> list[Proposal]:
    """Return the proposal to raise the Flash limit of `start`, planned again with the new limit, as a list.

    Two limits are tried, powers of two of KiB with room for faster kernels than those of `start`. The first with which the plan
    fits is returned; the list is empty if neither fits.
    """
    least = math.ceil(math.log2(HEADROOM * start.need.upper_bound / 1024))
    sizes = (f"{kib // 1024}m" if kib >= 1024 else f"{kib}k" for kib in (1 << least, 2 << least))
    tried = (_fitting(search.candidate({**start.changes, "flash": size}), needs_flash=True) for size in sizes)
    return next((solved for solved in tried if solved and solved[0].fits), [])


def _network_remedies(search: _Search, base: Proposal) -> list[Remedy]:
    """Return the remedies that need training samples: a network search, a smaller input image.

    `base` is the proposal that is closest to the limits.
    """
    limits, graph = search.limits, search.model.graph
    remedies = [Remedy("search")]
    least = min([base.arena, *(each.choices.least_bytes for each in search.tried if "device" not in each.changes)])
    of_ram = 1.0 if base.fits_ram or limits.ram is None else limits.ram / least
    has_flash = limits.flash is None or not base.need.excess(limits.flash)
    of_time = limits.latency_ms / base.latency_ms if base.too_slow and limits.latency_ms and base.latency_ms else 1.0
    shapes = [graph.tensors[name].shape for name in graph.inputs]
    side = math.sqrt(min(of_ram, of_time))
    is_image = len(shapes) == 1 and len(shapes[0]) == 4 and side * min(shapes[0][1:3]) >= LEAST_SIDE
    if has_flash and side < 1 and is_image:
        remedies.append(Remedy("input", share=side))
    return remedies


def _cheapest(search: _Search) -> Proposal | None:
    """Return the tried proposal with the fewest changes that meets the RAM limit without recomputation; None if none meets it.

    If several have equally few changes, the one with the smallest arena is returned.
    """
    able = [each for each in search.tried if not each.needs_too_much and "max_mac_overhead" not in each.changes]
    found = [each.proposal for each in able if each.proposal is not None and each.proposal.fits_ram]
    return min(found, key=lambda each: each.rank[2:], default=None)


def _search_options(search: _Search, base: Proposal, *, needs_flash: bool) -> list[Proposal]:
    """Return the proposals that fit with the fewest changes, or an empty list if none fits.

    All pairs, triples and so on of changes are tried only if the model would fit with all changes together. Recomputation is
    tried last.

    Args:
        needs_flash: whether a proposal must also meet the Flash and time limits; otherwise only the RAM limit.
    """
    changes = list(_changes(search, base))
    solved = list[Proposal]()
    for count in range(1, len(changes) + 1):
        for chosen in combinations(changes, count):
            solved += _fitting(_try(search, dict(chosen)), needs_flash=needs_flash)
        if solved:
            return solved
        if count == 1 and len(changes) > 2 and not _fits_with_all(search, dict(changes), needs_flash=needs_flash):
            break
    if base.fits_ram:
        return []  # recomputation takes time and saves no Flash
    least = next((each.changes for each in _closest(search.tried)), {})
    for overhead in OVERHEADS:
        if overhead > (search.request.max_mac_overhead or 1):
            candidate = _try(search, {**least, "max_mac_overhead": overhead})
            if solved := _fitting(candidate, needs_flash=needs_flash):
                return solved
            if candidate and search.limits.ram is not None and candidate.choices.least_bytes > HOPELESS * search.limits.ram:
                break
    return []


def _changes(search: _Search, base: Proposal) -> Iterator[tuple[str, Any]]:
    """Yield each option change (name, value) that could help this model; `base` is the proposal without changes."""
    graph, request = search.model.graph, search.request
    if request.strategy != "best":
        yield "schedule", "best"
    if request.weights == "ram":
        yield "weights", "auto"
    converted = any(graph.tensors[name].dtype != "int8" for name in (*graph.inputs, *graph.outputs))
    turned = any(op.kind == "transpose" for op in graph.ops)
    edges_now = (("io", search.model.io, "int8", converted), ("layout", search.model.layout, "nhwc", turned))
    for option, now, value, can_change in edges_now:
        if now != value and can_change:
            other = search.with_io({option: value}).graph
            edges = [
                [(g.tensors[name].dtype, g.tensors[name].shape) for name in (*g.inputs, *g.outputs)] for g in (graph, other)
            ]
            if edges[0] != edges[1]:
                yield option, value
    for option in ("stream_inputs", "stream_outputs"):
        if not getattr(request, option):
            yield option, True


def _fits_with_all(search: _Search, changes: Options, *, needs_flash: bool) -> bool:
    """Return whether the model fits with all `changes` together.

    If they cannot be planned together, streaming of the outputs, of the inputs, or of both is left out.
    """
    for without in ((), ("stream_outputs",), ("stream_inputs",), ("stream_inputs", "stream_outputs")):
        candidate = _try(search, {name: value for name, value in changes.items() if name not in without})
        if candidate is not None:
            return bool(_fitting(candidate, needs_flash=needs_flash))
    return False


def _try(search: _Search, changes: Options) -> _Candidate | None:
    """Return the candidate with these changes; if they were tried before, return the earlier candidate.

    Return None if the inputs or outputs alone exceed the RAM limit, if MOST_TRIES is reached, or if no plan can be made.
    """
    if known := [each for each in search.tried if each.changes == changes]:
        return known[0]
    return None if len(search.tried) >= MOST_TRIES or search.needs_more(changes) else search.candidate(changes)


def _on_boards(search: _Search, start: Proposal) -> list[Proposal]:
    """Return the proposal to use another board with the changes of `start`: the board with the least RAM on which it fits.

    The result is a list with at most one proposal. At most MOST_BOARDS boards are tried.
    """
    large_enough = [
        board
        for board in sorted(all_devices(), key=lambda board: (board.ram or 0, board.name))
        if (board.ram or 0) >= start.arena and board.flash is not None and board.flash >= start.need.upper_bound
    ]
    fast_enough = [board for board in large_enough if board != search.board and not _is_slow(search, start, board)]
    tried = (search.candidate({"device": board.name, **start.changes}, board) for board in fast_enough[:MOST_BOARDS])
    fitting = (each.proposal for each in tried if each and each.proposal and each.proposal.fits)
    return list(islice(fitting, 1))


def _is_slow(search: _Search, start: Proposal, board: Device) -> bool:
    """Return whether a board is not worth a try: it has no cycle model or clock, or clearly exceeds the time limit.

    The latency on the board is the latency of `start`, scaled by the ratio of the two clocks. It exceeds the limit clearly if
    it is above TOO_SLOW times the limit. No board is slow if there is no time limit or the latency of `start` is unknown.
    """
    limits = search.limits
    if limits.latency_ms is None or limits.clock_hz is None or start.latency_ms is None:
        return False
    if board.clock_hz is None or board.core not in plans.COST_MODEL_CORES:
        return True
    return start.latency_ms * limits.clock_hz / board.clock_hz > TOO_SLOW * limits.latency_ms


def _more_time(search: _Search, base: Proposal) -> list[Proposal]:
    """Return the proposal to raise the time limit, as a list with at most one proposal.

    The new limit is the latency of the fastest tried plan for the same device that meets the RAM and Flash limits.
    """
    tried = [base, *(each.proposal for each in search.tried if not each.needs_too_much and each.proposal)]
    able = [each for each in tried if each.fits_ram and not each.need.excess(search.limits.flash) and each.latency_ms]
    best = min((each for each in able if "device" not in each.changes), key=lambda each: each.latency_ms or 0, default=None)
    if best is None or best.latency_ms is None:
        return []
    limit = math.ceil(best.latency_ms * 100) / 100
    limits = replace(search.limits, latency_ms=limit)
    return [_proposal({**best.changes, "latency_ms": limit}, best.plan, search.board, limits)]


def _proposal(changes: Options, plan: Plan, board: Device | None, limits: Limits) -> Proposal:
    """Return a plan with changed options as a Proposal: its arena, its estimated Flash and latency, and whether it fits."""
    over, need = limits.ram_excess(plan.arena), plans.estimate_flash(plan, board)
    too_much, too_long = need.excess(limits.flash), plans.latency_excess(plan, board, limits)
    is_open = (limits.flash is not None and too_much is None) or (limits.latency_ms is not None and too_long is None)
    fits = results.verdict((over, too_much, too_long), is_open=is_open)
    time = limits.latency_ms + too_long if too_long and limits.latency_ms else plans.estimate_latency_ms(plan, board)
    return Proposal(changes, plan, sum(plan.arena.values()), need, time, fits, not over, bool(too_long))


def _fitting(candidate: _Candidate | None, *, needs_flash: bool) -> list[Proposal]:
    """Return the proposal of a candidate as a list, which is empty if the candidate is None or its plan does not fit.

    If `needs_flash`, the plan must not exceed any limit as far as can be known before a build; otherwise only the RAM limit
    counts. The plan is made only if its lower bound on the RAM is within the limit.
    """
    if candidate is None or candidate.needs_too_much or candidate.proposal is None:
        return []
    proposal = candidate.proposal
    return [proposal] if (proposal.fits is not False if needs_flash else proposal.fits_ram) else []


def _closest(tried: Sequence[_Candidate]) -> list[_Candidate]:
    """Return the tried candidates, sorted by the lower bound on their RAM, then by the number of changes."""
    return sorted(tried, key=lambda each: (each.choices.least_bytes, len(each.changes)))


def _best(done: Sequence[Proposal], tried: Sequence[_Candidate], base: Proposal) -> list[Proposal]:
    """Return at most MOST_PROPOSALS of the proposals in `done`, the best first.

    A proposal that has all changes of a better proposal, and others, is dropped unless it saves RAM. If `done` is empty and the
    RAM limit is exceeded, return the tried plans with the least RAM, if they need less than `base`.
    """
    ranked = sorted(done, key=lambda each: each.rank)
    if not ranked and not base.fits_ram:
        closest = _closest(tried)[:MOST_CLOSEST]
        able = (each.proposal for each in closest if each.proposal and each.proposal.arena < base.arena)
        ranked = sorted(able, key=lambda each: each.arena)
    best: list[Proposal] = []
    for each in ranked:
        beaten = any(other.changes.items() < each.changes.items() and other.arena <= each.arena for other in best)
        best += [] if beaten else [each]
    return best[:MOST_PROPOSALS]
