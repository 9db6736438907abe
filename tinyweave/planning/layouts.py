"""Search for the best plan in some plan spaces: lay out solutions as plans until no other solution can be better.

In: plan spaces, an objective, limits of bytes and cycles. Out: a Plan, or the candidates of a Pareto front. A solution is a
sequence of stages without addresses; its plan gives each buffer an offset. The Pareto search counts the bytes of a solution's
largest step and the cycles of its kernel calls. The plan may need more bytes, if the buffers do not fit without gaps, and
more cycles, if it relocates tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ..ir import CompileError
from ..kernels.layer_cycles import layer_cycles
from ..support.progress import Progress
from .alias.subtensors import ALIGN
from .fuse.row_access import not_by_rows
from .place.relocation_ops import is_move
from .plan import Plan
from .search.pareto import COSTS, Candidate, ParetoSearch, PathObjective, most_distinct
from .search.path_search import Solution
from .search.problem import NEVER
from .search.stage_cycles import StageCycles
from .strategies import PlanSpace

MOST_POINTS = 24  # plans of a front; more are hard to read
MOST_LAYOUTS = 8  # solutions laid out per search
SLACK = 0.01  # a plan may exceed its solution's bytes by this fraction before smaller solutions are tried
Item = TypeVar("Item")


class LayoutSearch:
    """A search for the best plan over several plan spaces; it caches the solutions that it computes.

    A plan space has all splits of one order of the ops into stages.
    """

    def __init__(self, spaces: Sequence[PlanSpace], *, relocates: bool = True) -> None:
        """Create the Pareto search over these plan spaces. If not `relocates`, no tensor is relocated."""
        self.spaces, self.relocates = spaces, relocates
        self.pareto = ParetoSearch([space.search for space in spaces])

    def plan(
        self, objective: PathObjective, byte_limit: int = NEVER, cycle_limit: int = NEVER, progress: Progress | None = None
    ) -> Plan:
        """Return the best plan by `objective` within the limits (NEVER for no limit). It is not checked.

        If no plan is within both limits, return the fastest plan within `byte_limit`. If no plan is within `byte_limit` either,
        return the smallest plan.

        Raises:
            CompileError: a streamed input is read by an op that cannot run row by row.
        """
        best = self._best(objective, byte_limit, cycle_limit, progress)
        if best is None and cycle_limit < NEVER and (fastest := self.pareto.best("speed", byte_limit)) is not None:
            best = self._best("speed", byte_limit, fastest.cycles, progress)  # relocations take cycles, so without them
            best = best or self._best("speed", byte_limit, NEVER, progress)
        if best is None and (byte_limit < NEVER or objective != "size"):
            best = self._best("size", NEVER, NEVER, progress)
        if best is None:
            raise self._no_plan()
        return best.plan

    def front(self) -> list[Candidate]:
        """Return at most MOST_POINTS candidates that are Pareto-optimal in bytes and cycles, the fewest cycles first.

        Raises:
            CompileError: a streamed input is read by an op that cannot run row by row.
        """
        self.pareto.caps.clear()
        solutions, candidates = self.pareto.front(), list[Candidate]()
        if not solutions:
            raise self._no_plan()
        for solution in most_distinct(solutions, MOST_POINTS):
            laid_out = self.lay_out(solution)
            candidates += self._smaller(laid_out, solution)[0] if solution is solutions[-1] else laid_out
        return most_distinct(pareto_front(candidates, COSTS["speed"]), MOST_POINTS)

    def lay_out(self, solution: Solution) -> list[Candidate]:
        """Return the plan of a solution; if it relocates tensors, also the plan without relocations."""
        space = self.spaces[solution.space]
        return [
            Candidate(each, sum(each.arena.values()), solution.cycles + _relocation_cycles(each, space.cycles_of))
            for each in space.lay_out(solution, relocates=self.relocates)
        ]

    def _best(self, objective: PathObjective, byte_limit: int, cycle_limit: int, progress: Progress | None) -> Candidate | None:
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
            if solution is None or (best is not None and cost(solution) >= cost(best)):
                break
            if progress:
                progress("planning the memory", number, 0)
            candidates = self.lay_out(solution)
            if objective == "size" and cycle_limit == NEVER:
                candidates, solution = self._smaller(candidates, solution)
            within = [each for each in candidates if each.bytes <= byte_limit and each.cycles <= cycle_limit]
            best = min([*within, *([best] if best else [])], key=cost, default=None)
            needed = candidates[0]
            if needed.bytes > byte_limit:
                most_bytes = solution.bytes - 1
            if needed.cycles > cycle_limit:  # leave time for relocations
                most_cycles = solution.cycles - (needed.cycles - cycle_limit)
            if needed.bytes > byte_limit or needed.cycles > cycle_limit:
                continue
            if best is not None and cost(best) <= cost(solution):
                break
            pareto.caps[solution.space] = solution.bytes - 1  # the plans of other solutions may have fewer gaps
        return best

    def _smaller(self, candidates: list[Candidate], solution: Solution) -> tuple[list[Candidate], Solution]:
        """Replace a solution whose plan has large gaps by one with a smaller plan, if there is one.

        The gaps are large if the plan needs over SLACK (1 %) more bytes than the solution's largest step. The replacement is
        the fastest solution of the same plan space with fewer bytes than this plan: it fuses few ops, and often leaves fewer
        gaps. This is repeated until the plan no longer shrinks. `candidates` are the plans of `solution`.

        Returns:
            The plans of the final solution, and that solution.
        """
        for _ in range(MOST_LAYOUTS):
            plan_bytes = candidates[0].bytes
            smaller = self.pareto.fastest_of(solution.space, plan_bytes - 1)
            if plan_bytes <= solution.bytes * (1 + SLACK) or smaller is None or smaller == solution:
                break
            laid_out = self.lay_out(smaller)
            if laid_out[0].bytes >= plan_bytes:
                break
            candidates, solution = laid_out, smaller
        return candidates, solution

    def _no_plan(self) -> CompileError:
        """Return the error if no plan exists; it names the op that reads a streamed input but cannot run row by row."""
        space = self.spaces[-1]
        return not_by_rows(space.cycles_of.row_graph, space.search.order)


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


def _relocation_cycles(plan: Plan, cycles_of: StageCycles) -> int:
    moves = [(op, name) for op, name in zip(plan.graph.ops, plan.variants, strict=True) if is_move(op)]
    known = (layer_cycles(plan.graph, op, name, cycles_of.core, reads=cycles_of.reads) for op, name in moves)
    return sum(round(cycles) for cycles in known if cycles is not None)
