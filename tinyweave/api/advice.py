"""Look for other options, or another board, with which a plan would fit.

In: a model, a board, limits and the options that were planned with. Out: proposals, each of them planned with exactly its
options, the fewest changes first. What a set of options has to choose from says at once what needs too much; only the rest is
laid out. Their number is bounded by counts, so that the same question has the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, islice
from typing import Any

from .. import planning, results
from ..devices import Device, all_devices
from ..ir import CompileError
from ..planning import Plan, Progress
from . import models, plans

Options = Mapping[str, Any]  # by the names that the command line has, with _ for -
OVERHEADS = (1.1, 1.2, 1.5)  # tried where nothing else fits: work that is done twice takes long to plan, and to run
MODEL_OPTIONS = ("io", "layout", "stream_time", "device")  # that `plan` does not take
SMALLEST = {"optimize": "size"}  # kernels with the fewest constants
MOST_TRIES = 24  # sets of options besides those for other boards
HOPELESS = 2  # times the RAM limit: what needs that much with some work done twice does not come down to it with more
MOST_BOARDS = 2  # that are planned for each set of options
TOO_SLOW = 1.5  # times the time limit: a board that takes that long by its clock is not planned for
MOST_PROPOSALS = 4
MOST_CLOSEST = 2  # proposals where none fits


@dataclass(frozen=True, eq=False)
class Proposal:
    """One plan: `changes` of the options, with the board and the limits that they lead to; arena and constants in bytes.

    latency_ms: estimated, without kernels that have no timings; None where no time is known. fits: as `tinyweave plan` says of
    it; None where only a build can tell. fits_ram: the arena alone.
    """

    changes: Options
    plan: Plan
    arena: int
    need: results.FlashNeed
    latency_ms: float | None
    fits: bool | None
    fits_ram: bool
    too_slow: bool = False

    @property
    def rank(self) -> tuple[bool, bool, int, int]:
        """Return what makes one proposal better than another: options before boards, few changes, little RAM."""
        return self.fits is None, "device" in self.changes, len(self.changes), self.arena


@dataclass(frozen=True, eq=False)
class _Candidate:
    """Changes of the options and what there is to choose from with them."""

    changes: Options
    choices: planning.Choices
    board: Device | None
    limits: results.Limits
    optimize: str | None

    @property
    def needs_too_much(self) -> bool:
        totals = [sum(memories.values()) for memories in self.limits.maps]
        return self.limits.ram is not None and self.choices.least_bytes > max([self.limits.ram, *totals])

    @cached_property
    def proposal(self) -> Proposal | None:
        """Return the plan that `tinyweave plan` makes, not checked, for it is only judged; None where there is none."""
        try:
            plan = plans.chosen(self.choices, self.limits, self.optimize, checked=False)
        except CompileError:
            return None
        return _judged(self.changes, plan, self.board, self.limits)


@dataclass
class _Search:
    """What all tries share: the imported file, the options to start from, and what was tried so far."""

    model: results.Model
    board: Device | None
    limits: results.Limits
    options: Options
    progress: Progress | None
    models: dict[tuple[str, str], results.Model] = field(default_factory=dict)
    tried: list[_Candidate] = field(default_factory=list)

    def edged(self, changes: Options) -> results.Model:
        """Return the model with the edges that these options give it, imported once."""
        io, layout = (changes.get(name, self.options[name]) for name in ("io", "layout"))
        if (io, layout) not in self.models:
            self.models[io, layout] = models.with_edges(self.model, io, layout)
        return self.models[io, layout]

    def needs_more(self, changes: Options) -> bool:
        """Return whether inputs or outputs that lie in RAM as a whole exceed the limit by themselves."""
        graph, chosen = self.edged(changes).graph, {**self.options, **changes}
        whole = [
            sum(graph.tensors[name].bytes for name in names)
            for names, by_rows in ((graph.inputs, "stream_inputs"), (graph.outputs, "stream_outputs"))
            if not chosen[by_rows]
        ]
        return self.limits.ram is not None and max(whole, default=0) > self.limits.ram

    def candidate(self, changes: Options, board: Device | None = None) -> _Candidate | None:
        """Return what there is to choose from with these changes, on another board if one is given; None where nothing is."""
        if self.progress:
            said = " ".join(f"{name}={value}" for name, value in changes.items())
            self.progress(f"trying {said}".replace("_", "-").replace("=True", ""), len(self.tried), 0)
        target, limits = board or self.board, self.limits
        chosen = {name: value for name, value in {**self.options, **changes}.items() if name not in MODEL_OPTIONS}
        try:
            if board is not None:
                limits = plans.limits_of(board, latency_ms=self.limits.latency_ms)
            core = target.core if target else plans.DEFAULT_CORE
            choices = plans.choices(self.edged(changes), limits=limits, core=core, **chosen)
        except CompileError:
            return None
        candidate = _Candidate(changes, choices, target, limits, chosen["optimize"])
        self.tried.append(candidate)
        return candidate


def advise(
    model: results.Model,
    plan: Plan,
    *,
    board: Device | None,
    limits: results.Limits,
    options: Options,
    progress: Progress | None = None,
) -> list[Proposal]:
    """Return what to change about a `plan` of `model` with these options that does not fit, the best first.

    `options` are those of `plans.plan`, and `io` and `layout`. Where nothing fits the proposals are those that need least:
    either the Flash is too small whatever the options, or the RAM is, or the time that is reached.
    """
    search = _Search(model, board, limits, options, progress)
    search.models[options["io"], options["layout"]] = model
    base = _judged({}, plan, board, limits)
    # Flash that the smallest kernels' constants exceed is too small whatever else changes; then only the RAM is searched for
    is_flash_enough = limits.flash is None or not base.need.excess(limits.flash)
    if not is_flash_enough and options["optimize"] != "size":
        smallest = _try(search, SMALLEST)
        is_flash_enough = bool(smallest and smallest.proposal and not smallest.proposal.need.excess(limits.flash))
    start = SMALLEST if is_flash_enough and base.need.excess(limits.flash) else {}
    done = _search_options(search, start, base, needs_flash=is_flash_enough)
    named = replace(limits, latency_ms=None, clock_hz=None)
    if board is not None and named == plans.device_limits(board):  # who names other limits knows what the board leaves
        for other in (base, _cheapest(search)):
            done += _on_boards(search, other) if other else []
    if base.too_slow and not any(each.fits is not False for each in done):
        done += _more_time(search, base)
    return _best(done, search.tried, base)


def _cheapest(search: _Search) -> Proposal | None:
    """Return the proposal with fewest changes, of these the smallest, that fits the RAM without more work."""
    able = [each for each in search.tried if not each.needs_too_much and "max_mac_overhead" not in each.changes]
    found = [each.proposal for each in able if each.proposal is not None and each.proposal.fits_ram]
    return min(found, key=lambda each: each.rank[2:], default=None)


def _search_options(search: _Search, start: Options, base: Proposal, *, needs_flash: bool) -> list[Proposal]:
    """Return the proposals with the fewest changes besides `start` that fit; with more work where none does."""
    changes = list(_changes(search, base))
    solved = [proposal for each in search.tried for proposal in _solved(each, needs_flash=needs_flash)]
    if solved and base.fits_ram:  # only the constants were too many
        return solved
    for count in range(1, len(changes) + 1):
        for chosen in combinations(changes, count):
            solved += _solved(_try(search, {**start, **dict(chosen)}), needs_flash=needs_flash)
        if solved:
            return solved
        if count == 1 and len(changes) > 2 and not _solvable(search, {**start, **dict(changes)}, needs_flash=needs_flash):
            break
    if base.fits_ram:
        return []  # more work would cost time, and no Flash less
    least = {**start, **next((each.changes for each in _closest(search.tried)), {})}
    for overhead in OVERHEADS:
        if overhead > (search.options["max_mac_overhead"] or 1):
            candidate = _try(search, {**least, "max_mac_overhead": overhead})
            if solved := _solved(candidate, needs_flash=needs_flash):
                return solved
            if candidate and search.limits.ram is not None and candidate.choices.least_bytes > HOPELESS * search.limits.ram:
                break
    return []


def _changes(search: _Search, base: Proposal) -> Iterator[tuple[str, Any]]:
    """Yield the changes that say something about this model, one by one."""
    graph, options = search.model.graph, search.options
    if options["schedule"] != "best":
        yield "schedule", "best"
    if base.too_slow and options["optimize"] != "speed":
        yield "optimize", "speed"  # which may have more constants
    converted = any(graph.tensors[name].dtype != "int8" for name in (*graph.inputs, *graph.outputs))
    turned = any(op.kind == "transpose" for op in graph.ops)
    for option, value, can_change in (("io", "int8", converted), ("layout", "nhwc", turned)):
        if options[option] != value and can_change:
            other = search.edged({option: value}).graph
            edges = [
                [(g.tensors[name].dtype, g.tensors[name].shape) for name in (*g.inputs, *g.outputs)] for g in (graph, other)
            ]
            if edges[0] != edges[1]:
                yield option, value
    for option in ("stream_inputs", "stream_outputs"):
        if not options[option]:
            yield option, True


def _solvable(search: _Search, changes: Options, *, needs_flash: bool) -> bool:
    """Return whether all changes together fit, as far as each of them can be planned."""
    for without in ((), ("stream_outputs",), ("stream_inputs",), ("stream_inputs", "stream_outputs")):
        candidate = _try(search, {name: value for name, value in changes.items() if name not in without})
        if candidate is not None:
            return bool(_solved(candidate, needs_flash=needs_flash))
    return False


def _try(search: _Search, changes: Options) -> _Candidate | None:
    """Return the candidate with these changes, if it can help and there are tries left."""
    if known := [each for each in search.tried if each.changes == changes]:
        return known[0]
    return None if len(search.tried) >= MOST_TRIES or search.needs_more(changes) else search.candidate(changes)


def _on_boards(search: _Search, start: Proposal) -> list[Proposal]:
    """Return the proposal with the changes of `start` for the smallest listed board on which it fits, if one is found soon."""
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
    """Return whether a board is too slow for the time limit, by its clock, or nothing is known of its time."""
    limits = search.limits
    if limits.latency_ms is None or limits.clock_hz is None or start.latency_ms is None:
        return False
    if board.clock_hz is None or board.core not in plans.FORESEEN:
        return True
    return start.latency_ms * limits.clock_hz / board.clock_hz > TOO_SLOW * limits.latency_ms


def _more_time(search: _Search, base: Proposal) -> list[Proposal]:
    """Return the shortest time limit that was reached within the RAM, by any of the options that were tried."""
    tried = [base, *(each.proposal for each in search.tried if not each.needs_too_much and each.proposal)]
    able = [each for each in tried if each.fits_ram and not each.need.excess(search.limits.flash) and each.latency_ms]
    best = min((each for each in able if "device" not in each.changes), key=lambda each: each.latency_ms or 0, default=None)
    if best is None or best.latency_ms is None:
        return []
    limit = math.ceil(best.latency_ms * 100) / 100
    limits = replace(search.limits, latency_ms=limit)
    return [_judged({**best.changes, "latency_ms": limit}, best.plan, search.board, limits)]


def _judged(changes: Options, plan: Plan, board: Device | None, limits: results.Limits) -> Proposal:
    over, need = limits.ram_excess(plan.arena), plans.flash_need(plan, board)
    too_much, too_long = need.excess(limits.flash), plans.latency_excess(plan, board, limits)
    is_open = (limits.flash is not None and too_much is None) or (limits.latency_ms is not None and too_long is None)
    fits = results.verdict((over, too_much, too_long), is_open=is_open)
    time = plans.latency_ms(plan, board)
    return Proposal(changes, plan, sum(plan.arena.values()), need, time, fits, not over, bool(too_long))


def _solved(candidate: _Candidate | None, *, needs_flash: bool) -> list[Proposal]:
    """Return the proposal of a candidate if it fits, which is only worked out where that can be."""
    if candidate is None or candidate.needs_too_much or candidate.proposal is None:
        return []
    proposal = candidate.proposal
    return [proposal] if (proposal.fits is not False if needs_flash else proposal.fits_ram) else []


def _closest(tried: Sequence[_Candidate]) -> list[_Candidate]:
    """Return what was tried, those that need least first."""
    return sorted(tried, key=lambda each: (each.choices.least_bytes, len(each.changes)))


def _best(done: Sequence[Proposal], tried: Sequence[_Candidate], base: Proposal) -> list[Proposal]:
    """Return the few best proposals: none that changes more than another and needs no less; where none fits the closest of
    those that need less than the plan as it is."""
    ranked = sorted(done, key=lambda each: (each.fits is False, each.rank))
    if not ranked:
        closest = _closest(tried)[:MOST_CLOSEST]
        able = (each.proposal for each in closest if each.proposal and each.proposal.arena < base.arena)
        ranked = sorted(able, key=lambda each: each.arena)
    best: list[Proposal] = []
    for each in ranked:
        beaten = any(other.changes.items() < each.changes.items() and other.arena <= each.arena for other in best)
        best += [] if beaten else [each]
    return best[:MOST_PROPOSALS]
