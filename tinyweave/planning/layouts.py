"""Search for the best plan in some plan spaces: lay out solutions until no other solution can be better.

In: plan spaces, an objective, limits of bytes and cycles. Out: a Plan, or the candidates of a Pareto front. A solution is a
sequence of stages without addresses; its layout gives each buffer an offset. The Pareto search counts the bytes of a solution's
largest step and the cycles of its kernel calls. The layout may need more bytes, if the buffers do not fit without gaps, and
more cycles, if it relocates tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from ..ir import CompileError
from ..kernels.layer_cycles import layer_cycles
from ..progress import Progress
from .alias.subtensors import ALIGN
from .assemble import PlacedLayout, plan_of_layout
from .fuse.row_access import not_by_rows
from .place.relocation_ops import is_move
from .plan import Plan
from .search.pareto import COSTS, Objective, Solution, most_distinct
from .search.problem import NEVER
from .search.stage_cycles import StageCycles
from .strategies import PlanSpace, pareto_search_of

MOST_POINTS = 24  # plans of a front; more are hard to read
MOST_LAYOUTS = 8  # solutions laid out per search
SLACK = 0.01  # a layout may exceed its solution's bytes by this fraction before smaller solutions are tried
Item = TypeVar("Item")


class Candidate(NamedTuple):
    """A solution (stages, tiles and kernels) and its layout (an offset for each buffer).

    The bytes and cycles of `solution` are those of the layout, which may exceed the figures of the search.
    """

    layout: PlacedLayout
    solution: Solution


class LayoutSearch:
    """A search for the best plan over several plan spaces; it caches the solutions that it computes."""

    def __init__(self, spaces: Sequence[PlanSpace]) -> None:
        """Create the Pareto search over these plan spaces."""
        self.spaces = spaces
        self.pareto = pareto_search_of(spaces)

    def plan(
        self, objective: Objective, byte_limit: int = NEVER, cycle_limit: int = NEVER, progress: Progress | None = None
    ) -> Plan:
        """Return the best plan by `objective` within the limits (NEVER for no limit). It is not checked.

        If no plan is within both limits, return the fastest plan within `byte_limit`. If there is none either, return the
        smallest plan.

        Raises:
            CompileError: a streamed input is read by an op that cannot run row by row.
        """
        best = self._best(objective, byte_limit, cycle_limit, progress)
        if best is None and cycle_limit < NEVER and (fastest := self.pareto.best("speed", byte_limit)) is not None:
            best = self._best("speed", byte_limit, fastest.path.cycles, progress)  # relocations take cycles, so without them
            best = best or self._best("speed", byte_limit, NEVER, progress)
        if best is None and (byte_limit < NEVER or objective != "size"):
            best = self._best("size", NEVER, NEVER, progress)
        if best is None:
            raise self._no_plan()
        return plan_of_layout(best.layout, self.spaces[best.solution.space].channels_once, checked=False)

    def front(self) -> list[Candidate]:
        """Return at most MOST_POINTS candidates that are Pareto-optimal in bytes and cycles, the fewest cycles first."""
        self.pareto.caps.clear()
        solutions, candidates = self.pareto.front(), list[Candidate]()
        if not solutions:
            raise self._no_plan()
        for solution in most_distinct(solutions, MOST_POINTS):
            layouts = self.lay_out(solution)
            candidates += self._smaller(layouts, solution)[0] if solution is solutions[-1] else layouts
        front = pareto_front(candidates, lambda candidate: COSTS["speed"](candidate.solution))
        chosen = most_distinct([candidate.solution for candidate in front], MOST_POINTS)
        return [candidate for candidate in front if candidate.solution in chosen]

    def lay_out(self, solution: Solution) -> list[Candidate]:
        """Return the layout of a solution; if it relocates tensors, also the layout without relocations."""
        space, candidates = self.spaces[solution.space], list[Candidate]()
        layout = space.lay_out(solution.path)
        for each in (layout,) if layout.unmoved is None else (layout, layout.unmoved):
            cycles = solution.path.cycles + _relocation_cycles(each, space.search.cycles_of)
            candidates.append(Candidate(each, solution._replace(path=solution.path._replace(bytes=each.bytes, cycles=cycles))))
        return candidates

    def _best(self, objective: Objective, byte_limit: int, cycle_limit: int, progress: Progress | None) -> Candidate | None:
        """Return the best candidate within the limits, or None if none of the solutions that were laid out is within them.

        At most MOST_LAYOUTS solutions are laid out.
        """
        pareto, cost = self.pareto, COSTS[objective]
        most_bytes = byte_limit if byte_limit == NEVER else -(-byte_limit // ALIGN) * ALIGN  # the search counts whole words
        most_cycles = cycle_limit
        best: Candidate | None = None
        pareto.caps.clear()
        for number in range(MOST_LAYOUTS):
            solution = pareto.best(objective, most_bytes, most_cycles)
            if solution is None or (best is not None and cost(solution) >= cost(best.solution)):
                break
            if progress:
                progress("plans laid out", number, 0)
            candidates = self.lay_out(solution)
            if objective == "size" and cycle_limit == NEVER:
                candidates, solution = self._smaller(candidates, solution)
            within = [
                each
                for each in candidates
                if each.solution.path.bytes <= byte_limit and each.solution.path.cycles <= cycle_limit
            ]
            best = min([*within, *([best] if best else [])], key=lambda each: cost(each.solution), default=None)
            needed = candidates[0].solution.path
            if needed.bytes > byte_limit:
                most_bytes = solution.path.bytes - 1
            if needed.cycles > cycle_limit:  # leave time for relocations
                most_cycles = solution.path.cycles - (needed.cycles - cycle_limit)
            if needed.bytes > byte_limit or needed.cycles > cycle_limit:
                continue
            if best is not None and cost(best.solution) <= cost(solution):
                break
            pareto.caps[solution.space] = solution.path.bytes - 1  # the layouts of other solutions may have fewer gaps
        return best

    def _smaller(self, candidates: list[Candidate], solution: Solution) -> tuple[list[Candidate], Solution]:
        """Replace a solution whose layout has large gaps by one with a smaller layout, if there is one.

        The gaps are large if the layout needs over SLACK (1 %) more bytes than the solution's largest step. The replacement is
        the fastest solution of the same plan space with fewer bytes than this layout: it fuses few ops, and often leaves fewer
        gaps. This is repeated until the layout no longer shrinks. `candidates` are the layouts of `solution`.

        Returns:
            The layouts of the final solution, and that solution.
        """
        for _ in range(MOST_LAYOUTS):
            layout_bytes = candidates[0].layout.bytes
            path = self.pareto.path(solution.space, layout_bytes - 1)
            if layout_bytes <= solution.path.bytes * (1 + SLACK) or path is None or path == solution.path:
                break
            smaller = Solution(solution.space, path)
            layouts = self.lay_out(smaller)
            if layouts[0].layout.bytes >= layout_bytes:
                break
            candidates, solution = layouts, smaller
        return candidates, solution

    def _no_plan(self) -> CompileError:
        """Return the error if no plan exists; it names the op that reads a streamed input but cannot run row by row."""
        search = self.spaces[-1].search
        return not_by_rows(search.row_graph, search.order)


def pareto_front(items: Sequence[Item], costs: Callable[[Item], tuple[int, int]]) -> list[Item]:
    """Return the Pareto-optimal items, sorted by their first cost; of items with equal costs only the first.

    `costs` returns the two costs of an item, both to be minimised.
    """
    front, least = list[Item](), NEVER
    for (_, second), _, item in sorted((costs(item), number, item) for number, item in enumerate(items)):
        if second < least:
            front.append(item)
            least = second
    return front


def _relocation_cycles(placed: PlacedLayout, cycles_of: StageCycles) -> int:
    graph, variants = placed.layout.row_graph.graph, placed.layout.row_graph.variants
    moves = [(op, name) for op, name in zip(graph.ops, variants, strict=True) if is_move(op)]
    known = (layer_cycles(graph, op, name, cycles_of.core, reads=cycles_of.reads) for op, name in moves)
    return sum(round(cycles) for cycles in known if cycles is not None)
