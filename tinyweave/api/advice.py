"""Search for options, Flash or a board with which a plan fits, and for changes of the network.

Options are tried from few to many changes. Sets of options whose lower bound exceeds the RAM limit are not laid out. Limits on
the number of tries, not on time, keep the result deterministic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, islice
from typing import Any

from .. import planning
from ..devices import Device, all_devices, parse_size
from ..ir import CompileError, Graph
from ..kernels.table import without_kernel
from ..ops import spec_of
from ..planning import Limits, Plan, Progress, Request
from . import models, plans, results

Options = Mapping[str, Any]  # by the names of the command line, with _ for -
REQUEST_FIELDS = {  # option -> field of a Request
    "schedule": "strategy",
    "optimize": "objective",
    "max_mac_overhead": "max_mac_overhead",
    "stream_inputs": "stream_inputs",
    "stream_outputs": "stream_outputs",
}
OVERHEADS = (1.1, 1.2, 1.5)  # MAC overheads, tried last because recomputation is slow to plan and to run
LESS_FLASH = ("size", "flash")  # objectives: kernels with the fewest constants, then with the least code too
MOST_TRIES = 24  # sets of options, those for other boards not included
HOPELESS = 2  # stop raising the overhead if the lower bound is this many times the RAM limit
MOST_BOARDS = 2  # boards to plan for, per set of options
TOO_SLOW = 1.5  # skip a board whose time, scaled by its clock, is this many times the limit
MOST_PROPOSALS = 4
MOST_CLOSEST = 2  # proposals if none fits
HEADROOM = 1.25  # times the Flash of the smallest kernels, so that faster kernels fit too
LEAST_SIDE = 16  # pixels of a smaller input
LEAST_SHARE = 0.05  # of the weights after pruning


@dataclass(frozen=True, eq=False)
class Proposal:
    """A plan with changed options. Arena in bytes; `latency_ms` is estimated, None if unknown.

    `fits` is the verdict of `tinyweave plan`, None if only a build can tell; `fits_ram` is about the arena alone.
    """

    changes: Options
    plan: Plan
    arena: int
    need: results.FlashEstimate
    latency_ms: float | None
    fits: bool | None
    fits_ram: bool
    too_slow: bool = False

    @property
    def rank(self) -> tuple[bool, int, int, int]:
        """Return a sort key: changed options before more Flash before another board, then few changes, then little RAM."""
        memory = ("device" in self.changes) * 2 + ("flash" in self.changes)
        return self.fits is None, memory, len(self.changes), self.arena


@dataclass(frozen=True, eq=False)
class Remedy:
    """A change of the network: `way` is "quantize" (to 4-bit weights), "prune", "input" (a smaller one) or "search".

    `planned` is the plan with 4-bit weights. `share` is the estimated share of weights ("prune") or of each side ("input") that
    may stay. `changes` are options to change as well; `over` names the limits that are exceeded with them.
    """

    way: str
    planned: Proposal | None = None
    share: float | None = None
    changes: Options = field(default_factory=dict)
    over: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class _Candidate:
    """Changed options, and the plans to choose from with them."""

    changes: Options
    choices: planning.PlanSearch
    board: Device | None
    limits: Limits

    @property
    def needs_too_much(self) -> bool:
        totals = [sum(memories.values()) for memories in self.limits.maps]
        return self.limits.ram is not None and self.choices.least_bytes > max([self.limits.ram, *totals])

    @cached_property
    def proposal(self) -> Proposal | None:
        """Return the plan that `tinyweave plan` would make, without checking it; None if there is none."""
        try:
            plan = self.choices.plan(checked=False)
        except CompileError:
            return None
        return _proposal(self.changes, plan, self.board, self.limits)


@dataclass
class _Search:
    """The model, the request, and the sets of options tried so far."""

    model: results.Model
    board: Device | None
    request: Request
    progress: Progress | None
    models: dict[tuple[str, str], results.Model] = field(default_factory=dict)
    tried: list[_Candidate] = field(default_factory=list)

    @property
    def limits(self) -> Limits:
        return self.request.limits

    def with_io(self, changes: Options) -> results.Model:
        """Return the model with the `io` and `layout` of these options, imported once."""
        io, layout = changes.get("io", self.model.io), changes.get("layout", self.model.layout)
        if (io, layout) not in self.models:
            self.models[io, layout] = models.with_io(self.model, io, layout)
        return self.models[io, layout]

    def needs_more(self, changes: Options) -> bool:
        """Return whether inputs or outputs that are not streamed exceed the RAM limit on their own."""
        graph, request = self.with_io(changes).graph, changed(self.request, changes)
        whole = [
            sum(graph.tensors[name].bytes for name in names)
            for names, by_rows in ((graph.inputs, request.stream_inputs), (graph.outputs, request.stream_outputs))
            if not by_rows
        ]
        return self.limits.ram is not None and max(whole, default=0) > self.limits.ram

    def candidate(self, changes: Options, board: Device | None = None, model: results.Model | None = None) -> _Candidate | None:
        """Return the plans with these changes, for another board or model if given; None if there are none."""
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
            choices = plans.choices(model or self.with_io(changes), request)
        except CompileError:
            return None
        candidate = _Candidate(changes, choices, target, request.limits)
        if model is None and "flash" not in changes:
            self.tried.append(candidate)
        return candidate


def changed(request: Request, changes: Options) -> Request:
    """Return a request with changed options; options that are no field of a Request are ignored."""
    return replace(request, **{REQUEST_FIELDS[name]: value for name, value in changes.items() if name in REQUEST_FIELDS})


def advise(
    model: results.Model,
    plan: Plan,
    request: Request,
    *,
    board: Device | None,
    flash: int | None = None,
    progress: Progress | None = None,
) -> tuple[list[Proposal], list[Remedy]]:
    """Return proposals and remedies for a plan that does not fit its request, the best first.

    `flash` is the measured Flash of the plan in bytes, None before a build. Each proposal fits on its own. Remedies are added
    if no options on this board fit. If the RAM is too small for all options, the proposals are those that need the least RAM.
    """
    search, limits = _Search(model, board, request, progress), request.limits
    search.models[model.io, model.layout] = model
    base = _proposal({}, plan, board, limits)
    if flash is not None:
        base = replace(base, need=results.FlashEstimate(flash, flash, flash))
    # if the smallest kernels' constants exceed the Flash, no options help; then search options for the RAM alone
    start = _less_flash(search) if base.need.excess(limits.flash) else {}
    is_flash_enough = bool(start) or not base.need.excess(limits.flash)
    found = [] if base.fits_ram and not is_flash_enough else _search_options(search, start, base, needs_flash=is_flash_enough)
    done = [each for each in found if each.fits is not False]
    remedies: list[Remedy] = []
    if not done:
        in_ram = min(found, key=lambda each: each.rank, default=base)  # then only Flash or time is exceeded
        if in_ram.fits_ram and not is_flash_enough:
            remedies += _with_int4_weights(search, in_ram)
            done += _more_flash(search, in_ram)
        remedies += _network_remedies(search, in_ram)
    named = replace(limits, latency_ms=None, clock_hz=None)
    if board is not None and named == plans.device_limits(board):  # users who give limits have chosen the board
        for other in (base, _cheapest(search)):
            done += _on_boards(search, other) if other else []
    if base.too_slow and not any(each.fits is not False for each in done):
        done += _more_time(search, base)
    return _best(done, search.tried, base), remedies


def _less_flash(search: _Search) -> Options:
    """Return the change to the first of LESS_FLASH whose constants meet the Flash limit, or none; all of them are tried."""
    flash, now = search.limits.flash or 0, search.request.objective
    others = LESS_FLASH[LESS_FLASH.index(now) + 1 :] if now in LESS_FLASH else LESS_FLASH
    tried = [_try(search, {"optimize": each}) for each in others if _weight_bytes(search.model.graph) <= flash]
    able = [each.changes for each in tried if each and each.proposal and not each.proposal.need.excess(flash)]
    return able[0] if able else {}


def _weight_bytes(graph: Graph) -> int:
    """Return the bytes of the weights of convolutions and dense layers, a lower bound on the constants."""
    names = {op.inputs[1] for op in graph.ops if spec_of(op).takes_int4_weights}
    return sum(graph.tensors[name].bytes for name in names if name is not None and graph.tensors[name].data is not None)


def _int4_graph(graph: Graph) -> Graph:
    """Return a graph with truncated 4-bit weights where kernels support them; its size is right, its outputs are not."""
    small: dict[str, Any] = {}
    for op in graph.ops:
        weights = graph.tensors[op.inputs[1]] if spec_of(op).takes_int4_weights and op.inputs[1] else None
        if weights is None or weights.data is None or weights.dtype != "int8" or len(graph.consumers[weights.name]) > 1:
            continue
        narrow = replace(weights, dtype="int4", data=(weights.data & 15) - 8)
        alone = replace(graph, tensors={**graph.tensors, weights.name: narrow})
        if narrow.bytes < weights.bytes and not any(reason.op is op for reason in without_kernel(alone)):
            small[weights.name] = narrow
    return replace(graph, tensors={**graph.tensors, **small})


def _with_int4_weights(search: _Search, start: Proposal) -> list[Remedy]:
    """Return the remedy of 4-bit weights with the changes of `start`, if the network fits then."""
    model = search.with_io(start.changes)
    candidate = search.candidate(start.changes, model=replace(model, graph=_int4_graph(model.graph)))
    return [Remedy("quantize", proposal, changes=start.changes) for proposal in _fitting(candidate, needs_flash=True)]


def _more_flash(search: _Search, start: Proposal) -> list[Proposal]:
    """Return `start` with the smallest power of two of Flash with which it fits and faster kernels have headroom."""
    least = math.ceil(math.log2(HEADROOM * start.need.upper_bound / 1024))
    sizes = (f"{kib // 1024}m" if kib >= 1024 else f"{kib}k" for kib in (1 << least, 2 << least))
    tried = (_fitting(search.candidate({**start.changes, "flash": size}), needs_flash=True) for size in sizes)
    return next((solved for solved in tried if solved and solved[0].fits), [])


def _network_remedies(search: _Search, base: Proposal) -> list[Remedy]:
    """Return the remedies that need the float model or training samples; pruning also changes the options of `base`."""
    limits, graph = search.limits, search.model.graph
    remedies: list[Remedy] = []
    least = min([base.arena, *(each.choices.least_bytes for each in search.tried if "device" not in each.changes)])
    of_ram = 1.0 if base.fits_ram or limits.ram is None else limits.ram / least
    of_flash = limits.flash / base.need.upper_bound if limits.flash is not None and base.need.excess(limits.flash) else 1.0
    share = min(of_flash, of_ram**2)  # maps shrink with the channels, weights with their square
    if LEAST_SHARE < share < 1 and not search.needs_more(base.changes):
        over = tuple(name for name, part in (("ram", of_ram), ("flash", of_flash)) if part < 1)
        remedies.append(Remedy("prune", share=share, changes=base.changes, over=over))
    remedies.append(Remedy("search"))
    of_time = limits.latency_ms / base.latency_ms if base.too_slow and limits.latency_ms and base.latency_ms else 1.0
    shapes = [graph.tensors[name].shape for name in graph.inputs]
    side = math.sqrt(min(of_ram, of_time))
    is_image = len(shapes) == 1 and len(shapes[0]) == 4 and side * min(shapes[0][1:3]) >= LEAST_SIDE
    if of_flash == 1 and side < 1 and is_image:
        remedies.append(Remedy("input", share=side))
    return remedies


def _cheapest(search: _Search) -> Proposal | None:
    """Return the smallest of the proposals with the fewest changes that fit the RAM without recomputation."""
    able = [each for each in search.tried if not each.needs_too_much and "max_mac_overhead" not in each.changes]
    found = [each.proposal for each in able if each.proposal is not None and each.proposal.fits_ram]
    return min(found, key=lambda each: each.rank[2:], default=None)


def _search_options(search: _Search, start: Options, base: Proposal, *, needs_flash: bool) -> list[Proposal]:
    """Return the fitting proposals with the fewest changes besides `start`; try recomputation if none fits."""
    changes = list(_changes(search, base))
    solved = [proposal for each in search.tried for proposal in _fitting(each, needs_flash=needs_flash)]
    if solved and base.fits_ram:  # only the constants were too large
        return solved
    for count in range(1, len(changes) + 1):
        for chosen in combinations(changes, count):
            solved += _fitting(_try(search, {**start, **dict(chosen)}), needs_flash=needs_flash)
        if solved:
            return solved
        if count == 1 and len(changes) > 2 and not _fits_with_all(search, {**start, **dict(changes)}, needs_flash=needs_flash):
            break
    if base.fits_ram:
        return []  # recomputation takes time and saves no Flash
    least = {**start, **next((each.changes for each in _closest(search.tried)), {})}
    for overhead in OVERHEADS:
        if overhead > (search.request.max_mac_overhead or 1):
            candidate = _try(search, {**least, "max_mac_overhead": overhead})
            if solved := _fitting(candidate, needs_flash=needs_flash):
                return solved
            if candidate and search.limits.ram is not None and candidate.choices.least_bytes > HOPELESS * search.limits.ram:
                break
    return []


def _changes(search: _Search, base: Proposal) -> Iterator[tuple[str, Any]]:
    """Yield the option changes that affect this model."""
    graph, request = search.model.graph, search.request
    if request.strategy != "best":
        yield "schedule", "best"
    if base.too_slow and request.objective != "speed":
        yield "optimize", "speed"  # which may have more constants
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
    """Return whether the model fits with all changes that can be planned together."""
    for without in ((), ("stream_outputs",), ("stream_inputs",), ("stream_inputs", "stream_outputs")):
        candidate = _try(search, {name: value for name, value in changes.items() if name not in without})
        if candidate is not None:
            return bool(_fitting(candidate, needs_flash=needs_flash))
    return False


def _try(search: _Search, changes: Options) -> _Candidate | None:
    """Return the candidate with these changes, or None if it cannot help or the tries are used up."""
    if known := [each for each in search.tried if each.changes == changes]:
        return known[0]
    return None if len(search.tried) >= MOST_TRIES or search.needs_more(changes) else search.candidate(changes)


def _on_boards(search: _Search, start: Proposal) -> list[Proposal]:
    """Return the proposal with the changes of `start` on the smallest board that fits, if one of the first few does."""
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
    """Return whether a board exceeds the time limit by its clock, or has no cycle model."""
    limits = search.limits
    if limits.latency_ms is None or limits.clock_hz is None or start.latency_ms is None:
        return False
    if board.clock_hz is None or board.core not in plans.COST_MODEL_CORES:
        return True
    return start.latency_ms * limits.clock_hz / board.clock_hz > TOO_SLOW * limits.latency_ms


def _more_time(search: _Search, base: Proposal) -> list[Proposal]:
    """Return the fastest of the tried plans within the RAM, with a time limit that it meets."""
    tried = [base, *(each.proposal for each in search.tried if not each.needs_too_much and each.proposal)]
    able = [each for each in tried if each.fits_ram and not each.need.excess(search.limits.flash) and each.latency_ms]
    best = min((each for each in able if "device" not in each.changes), key=lambda each: each.latency_ms or 0, default=None)
    if best is None or best.latency_ms is None:
        return []
    limit = math.ceil(best.latency_ms * 100) / 100
    limits = replace(search.limits, latency_ms=limit)
    return [_proposal({**best.changes, "latency_ms": limit}, best.plan, search.board, limits)]


def _proposal(changes: Options, plan: Plan, board: Device | None, limits: Limits) -> Proposal:
    over, need = limits.ram_excess(plan.arena), plans.estimate_flash(plan, board)
    too_much, too_long = need.excess(limits.flash), plans.latency_excess(plan, board, limits)
    is_open = (limits.flash is not None and too_much is None) or (limits.latency_ms is not None and too_long is None)
    fits = results.verdict((over, too_much, too_long), is_open=is_open)
    time = plans.estimate_latency_ms(plan, board)
    return Proposal(changes, plan, sum(plan.arena.values()), need, time, fits, not over, bool(too_long))


def _fitting(candidate: _Candidate | None, *, needs_flash: bool) -> list[Proposal]:
    """Return the proposal of a candidate if it fits; it is only laid out if its lower bound fits."""
    if candidate is None or candidate.needs_too_much or candidate.proposal is None:
        return []
    proposal = candidate.proposal
    return [proposal] if (proposal.fits is not False if needs_flash else proposal.fits_ram) else []


def _closest(tried: Sequence[_Candidate]) -> list[_Candidate]:
    """Return the tried candidates, the least RAM first."""
    return sorted(tried, key=lambda each: (each.choices.least_bytes, len(each.changes)))


def _best(done: Sequence[Proposal], tried: Sequence[_Candidate], base: Proposal) -> list[Proposal]:
    """Return the best proposals, without those that change more than another and save nothing.

    If none fits, return the smallest plans that need less RAM than `base`.
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
