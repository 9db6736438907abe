"""What to change about a plan that does not fit: other options, other boards.

In: a model, a board, limits and the options that were planned with. Out: proposals, each of them planned with exactly its
options, the fewest changes first. The number of plans is bounded by counts, so that the same question has the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from .. import results
from ..devices import Device, all_devices
from ..ir import CompileError
from ..planning import Plan, Progress
from . import models, plans

Options = Mapping[str, Any]  # by the names that the command line has, with _ for -
# tried where nothing else fits, with the smallest kernels: work that is done twice takes long to plan, and to run
OVERHEADS = (1.1, 1.2, 1.5)
SMALLEST = {"optimize": "size"}
MOST_TRIES = 24  # plans besides those for other boards
HOPELESS = 2  # times the RAM limit: an arena that large with some work done twice does not come down to it with more
MOST_BOARDS = 2  # that are planned for each set of options
MOST_PROPOSALS = 4
MOST_CLOSEST = 2  # proposals where none fits


@dataclass(frozen=True, eq=False)
class Proposal:
    """One plan: `changes` of the options, with the board and the limits that they lead to; arena and constants in bytes.

    fits: as `tinyweave plan` says of it; None where only a build can tell. fits_ram: the arena alone.
    """

    changes: Options
    plan: Plan
    arena: int
    need: results.FlashNeed
    fits: bool | None
    fits_ram: bool

    @property
    def rank(self) -> tuple[bool, bool, int, int]:
        """Return what makes one proposal better than another: options before boards, few changes, little RAM."""
        return self.fits is None, "device" in self.changes, len(self.changes), self.arena


@dataclass
class _Search:
    """What all tries share: the imported file, the options to start from, and what was planned so far."""

    model: results.Model
    board: Device | None
    limits: results.Limits
    options: Options
    progress: Progress | None
    models: dict[tuple[str, str], results.Model] = field(default_factory=dict)
    tried: list[Proposal] = field(default_factory=list)

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

    def planned(self, changes: Options, board: Device | None = None) -> Proposal | None:
        """Plan with these changes, on another board if one is given; None where they cannot be planned."""
        if self.progress:
            said = " ".join(f"{name}={value}" for name, value in changes.items())
            self.progress(f"trying {said}".replace("_", "-").replace("=True", ""), len(self.tried), 0)
        target, limits = board or self.board, plans.device_limits(board) if board else self.limits
        chosen = {name: value for name, value in {**self.options, **changes}.items() if name not in ("io", "layout", "device")}
        try:
            plan = plans.plan(self.edged(changes), limits=limits, core=target.core if target else plans.DEFAULT_CORE, **chosen)
        except CompileError:
            return None
        proposal = _judged(changes, plan, target, limits)
        self.tried.append(proposal)
        return proposal


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
    either the Flash is too small whatever the options, or the RAM is.
    """
    search = _Search(model, board, limits, options, progress)
    search.models[options["io"], options["layout"]] = model
    base = _judged({}, plan, board, limits)
    smallest = None if options["optimize"] == "size" else search.planned(SMALLEST)
    # Flash that the smallest kernels' constants exceed is too small whatever else changes; then only the RAM is searched for
    is_flash_enough = not all(each.need.excess(limits.flash) for each in (base, smallest) if each)
    start = SMALLEST if is_flash_enough and base.need.excess(limits.flash) else {}
    done = _search_options(search, start, needs_flash=is_flash_enough)
    if board is not None and limits == plans.device_limits(board):  # who names other limits knows what the board leaves
        cheap = [each for each in search.tried if each.fits_ram and "max_mac_overhead" not in each.changes]
        best = min(cheap, key=lambda each: each.rank[2:], default=None)
        for other in (base, best):
            done += _on_boards(search, other) if other else []
    return _best(done, search.tried)


def _search_options(search: _Search, start: Options, *, needs_flash: bool) -> list[Proposal]:
    """Return the proposals with the fewest changes besides `start` that fit; with more work where none does."""
    changes = list(_changes(search))
    solved = [each for each in search.tried if _solves(each, needs_flash=needs_flash)]
    for count in range(1, len(changes) + 1):
        for chosen in combinations(changes, count):
            proposal = _try(search, {**start, **dict(chosen)})
            solved += [proposal] if proposal and _solves(proposal, needs_flash=needs_flash) else []
        if solved:
            return solved
        if count == 1 and len(changes) > 2 and not _solvable(search, {**start, **dict(changes)}, needs_flash=needs_flash):
            break
    closest = min(search.tried, key=lambda each: (each.arena, len(each.changes)), default=None)
    base = {**start, **(closest.changes if closest else {}), **({} if search.options["optimize"] == "size" else SMALLEST)}
    for overhead in OVERHEADS:
        if overhead > (search.options["max_mac_overhead"] or 1):
            proposal = _try(search, {**base, "max_mac_overhead": overhead})
            if proposal and _solves(proposal, needs_flash=needs_flash):
                return [proposal]
            if proposal and search.limits.ram is not None and proposal.arena > HOPELESS * search.limits.ram:
                break
    return []


def _changes(search: _Search) -> Iterator[tuple[str, Any]]:
    """Yield the changes that say something about this model, one by one."""
    graph, options = search.model.graph, search.options
    if options["schedule"] != "best":
        yield "schedule", "best"
    for option, value in (("io", "int8"), ("layout", "nhwc")):
        if options[option] != value:
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
        left = {name: value for name, value in changes.items() if name not in without}
        proposal = _try(search, left)
        if proposal is not None:
            return _solves(proposal, needs_flash=needs_flash)
    return False


def _try(search: _Search, changes: Options) -> Proposal | None:
    """Plan with these changes, if that was not tried, can help, and there are tries left."""
    for each in search.tried:
        if each.changes == changes:
            return each
    return None if len(search.tried) >= MOST_TRIES or search.needs_more(changes) else search.planned(changes)


def _on_boards(search: _Search, start: Proposal) -> list[Proposal]:
    """Return the proposal with the changes of `start` for the smallest listed board on which it fits, if one is found soon."""
    large_enough = [
        board
        for board in sorted(all_devices(), key=lambda board: (board.ram or 0, board.name))
        if (board.ram or 0) >= start.arena and board.flash is not None and board.flash >= start.need.upper_bound
    ]
    for board in [board for board in large_enough if board != search.board][:MOST_BOARDS]:
        proposal = search.planned({"device": board.name, **start.changes}, board)
        if proposal and proposal.fits:
            return [proposal]
    return []


def _judged(changes: Options, plan: Plan, board: Device | None, limits: results.Limits) -> Proposal:
    over, need = limits.ram_excess(plan.arena), plans.flash_need(plan, board)
    too_much, too_long = need.excess(limits.flash), plans.latency_excess(plan, board, limits)
    is_open = (limits.flash is not None and too_much is None) or (limits.latency_ms is not None and too_long is None)
    fits = results.verdict((over, too_much, too_long), is_open=is_open)
    return Proposal(changes, plan, sum(plan.arena.values()), need, fits, not over)


def _solves(proposal: Proposal, *, needs_flash: bool) -> bool:
    return proposal.fits is not False if needs_flash else proposal.fits_ram


def _best(done: Sequence[Proposal], tried: Sequence[Proposal]) -> list[Proposal]:
    """Return the few best proposals: none that changes more than another and needs no less; the closest where none fits."""
    fitting = sorted((each for each in done if each.fits is not False), key=lambda each: each.rank)
    others = sorted((each for each in done if each.fits is False), key=lambda each: each.rank)
    closest = sorted(tried, key=lambda each: (each.arena, len(each.changes)))
    best: list[Proposal] = []
    for each in [*fitting, *others] or closest[:MOST_CLOSEST]:
        beaten = any(other.changes.items() < each.changes.items() and other.arena <= each.arena for other in best)
        best += [] if beaten else [each]
    return best[:MOST_PROPOSALS]
