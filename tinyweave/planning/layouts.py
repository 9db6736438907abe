"""Search for the best plan in some plan spaces: lay out solutions as plans until no other solution can be better.

In: plan spaces, an objective, limits of bytes and cycles. Out: a Plan, or the candidates of a Pareto front. A solution is a
sequence of stages without addresses; its plan gives each buffer an offset. The Pareto search counts the bytes of a solution's
largest step and the cycles of its kernel calls. The plan may need more bytes, if the buffers do not fit without gaps, and
more cycles, if it relocates tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..ir import CompileError
from ..kernels.layer_cycles import layer_cycles
from ..support.progress import Progress
from .alias.subtensors import ALIGN
from .fuse.row_access import not_by_rows
from .place.relocation_ops import is_move
from .plan import Plan
from .search.pareto import COSTS, Candidate, PathObjective, best, front, most_distinct
from .search.path_search import Solution, pareto_front
from .search.problem import NEVER
from .search.stage_cycles import StageCycles
from .strategies import PlanSpace, fastest_in

MOST_POINTS = 24  # plans of a front; more are hard to read
MOST_LAYOUTS = 8  # solutions laid out per search
SLACK = 0.01  # a plan may exceed its solution's bytes by this fraction before smaller solutions are tried


def best_plan(
    spaces: Sequence[PlanSpace],
    objective: PathObjective,
    byte_limit: int = NEVER,
    cycle_limit: int = NEVER,
    progress: Progress | None = None,
    *,
    relocates: bool = True,
) -> Plan:
    """Return the best plan of some plan spaces by `objective` within the limits (NEVER for no limit). It is not checked.

    If no plan is within both limits, return the fastest plan within `byte_limit`. If no plan is within `byte_limit` either,
    return the smallest plan. If not `relocates`, no tensor is relocated. Raise CompileError if a streamed input is read by an
    op that cannot run row by row.
    """
    find = partial(_best, spaces, progress=progress, relocates=relocates)
    found = find(objective, byte_limit, cycle_limit)
    if found is None and cycle_limit < NEVER and (fastest := best(fastest_in(spaces), "speed", byte_limit)) is not None:
        found = find("speed", byte_limit, fastest.cycles)  # relocations take cycles, so without them
        found = found or find("speed", byte_limit, NEVER)
    if found is None and (byte_limit < NEVER or objective != "size"):
        found = find("size", NEVER, NEVER)
    if found is None:
        raise _no_plan(spaces)
    return found.plan


def best_candidates(spaces: Sequence[PlanSpace]) -> list[Candidate]:
    """Return at most MOST_POINTS candidates that are Pareto-optimal in bytes and cycles, the fewest cycles first."""
    solutions, candidates = front(fastest_in(spaces)), list[Candidate]()
    if not solutions:
        raise _no_plan(spaces)
    for solution in most_distinct(solutions, MOST_POINTS):
        laid_out = _laid_out(spaces, solution)
        candidates += _smaller(spaces, laid_out, solution)[0] if solution is solutions[-1] else laid_out
    return most_distinct(pareto_front(candidates, COSTS["speed"]), MOST_POINTS)


def _laid_out(spaces: Sequence[PlanSpace], solution: Solution, *, relocates: bool = True) -> list[Candidate]:
    """Return the plan of a solution; if it relocates tensors, also the plan without relocations."""
    space = spaces[solution.space]
    return [
        Candidate(each, sum(each.arena.values()), solution.cycles + _relocation_cycles(each, space.cycles_of))
        for each in space.lay_out(solution, relocates=relocates)
    ]


def _best(
    spaces: Sequence[PlanSpace],
    objective: PathObjective,
    byte_limit: int,
    cycle_limit: int,
    *,
    progress: Progress | None,
    relocates: bool,
) -> Candidate | None:
    """Return the best candidate of at most MOST_LAYOUTS laid-out solutions within the limits; None if there is none."""
    cost, caps = COSTS[objective], dict[int, int]()  # caps: plan space -> bytes that its next solutions may need
    most_bytes = byte_limit if byte_limit == NEVER else -(-byte_limit // ALIGN) * ALIGN  # the search counts whole words
    most_cycles = cycle_limit
    found: Candidate | None = None
    for number in range(MOST_LAYOUTS):
        solution = best(fastest_in(spaces, caps), objective, most_bytes, most_cycles)
        if solution is None or (found is not None and cost(solution) >= cost(found)):
            break
        if progress:
            progress("planning the memory", number, 0)
        candidates = _laid_out(spaces, solution, relocates=relocates)
        if objective == "size" and cycle_limit == NEVER:
            candidates, solution = _smaller(spaces, candidates, solution, relocates=relocates)
        within = [each for each in candidates if each.bytes <= byte_limit and each.cycles <= cycle_limit]
        found = min([*within, *([found] if found else [])], key=cost, default=None)
        needed = candidates[0]
        if needed.bytes > byte_limit:
            most_bytes = solution.bytes - 1
        if needed.cycles > cycle_limit:  # leave time for relocations
            most_cycles = solution.cycles - (needed.cycles - cycle_limit)
        if needed.bytes > byte_limit or needed.cycles > cycle_limit:
            continue
        if found is not None and cost(found) <= cost(solution):
            break
        caps[solution.space] = solution.bytes - 1  # the plans of other solutions may have fewer gaps
    return found


def _smaller(
    spaces: Sequence[PlanSpace], candidates: list[Candidate], solution: Solution, *, relocates: bool = True
) -> tuple[list[Candidate], Solution]:
    """Replace a solution whose plan has large gaps by one with a smaller plan, if there is one.

    The gaps are large if the plan needs over SLACK (1 %) more bytes than the solution's largest step. The replacement is
    the fastest solution of the same plan space with fewer bytes than this plan: it fuses few ops, and often leaves fewer
    gaps. This is repeated until the plan no longer shrinks. `candidates` are the plans of `solution`.

    Returns:
        The plans of the final solution, and that solution.
    """
    for _ in range(MOST_LAYOUTS):
        plan_bytes = candidates[0].bytes
        smaller = spaces[solution.space].search.fastest(plan_bytes - 1)
        smaller = smaller and smaller._replace(space=solution.space)
        if plan_bytes <= solution.bytes * (1 + SLACK) or smaller is None or smaller == solution:
            break
        laid_out = _laid_out(spaces, smaller, relocates=relocates)
        if laid_out[0].bytes >= plan_bytes:
            break
        candidates, solution = laid_out, smaller
    return candidates, solution


def _no_plan(spaces: Sequence[PlanSpace]) -> CompileError:
    """Return the error if no plan exists; it names the op that reads a streamed input but cannot run row by row."""
    return not_by_rows(spaces[-1].cycles_of.row_graph, spaces[-1].search.order)


def _relocation_cycles(plan: Plan, cycles_of: StageCycles) -> int:
    moves = [(op, name) for op, name in zip(plan.graph.ops, plan.variants, strict=True) if is_move(op)]
    known = (layer_cycles(plan.graph, op, name, cycles_of.core, reads=cycles_of.reads) for op, name in moves)
    return sum(round(cycles) for cycles in known if cycles is not None)
