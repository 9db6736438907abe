"""The planner. In: a Graph and a Request. Out: a checked Plan, or a Pareto front of plans.

1. `strategies` turns the request into plan spaces. A plan space holds all solutions of one order of the ops with one kernel
   set. A solution splits the order into unfused ops and fused stages. All plan spaces of a search share the kernel set.
2. `search` finds the best solution of all plan spaces by an objective, within limits of bytes and cycles.
3. `layouts` turns the best solutions into plans, which give each buffer an offset, and returns the best plan.
4. If the plan exceeds the Flash limit, PlanSearch repeats this with a smaller kernel set. Objective `flash` begins with the
   smallest set and the layouts with the least code.
5. `check` verifies the plan; `memories` distributes its buffers over several memories.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from ..ir import CompileError, Graph
from ..ops import macs
from ..support.progress import Progress
from .check import check
from .fuse.row_access import StreamedIO
from .fuse.row_schedule import plan_macs
from .kernel_choice import PORTABLE, KernelRule
from .kernels.cycles import cycles_to_compare
from .kernels.flash_budget import (
    constant_bytes,
    flash_and_cycles,
    flash_bytes,
    fused_layers,
    kernel_sets,
    likely_code,
    predicted_kernels,
    sets_with_less_flash,
)
from .kernels.stack import least_stack, stack_bytes
from .layouts import best_candidates, best_plan
from .memories import distribute_over_maps
from .plan import Plan
from .request import Limits, Objective, Request
from .search.pareto import COSTS, Candidate, PathObjective, Query
from .search.path_search import pareto_front
from .search.problem import NEVER, Problem
from .strategies import KernelSet, PlanSpace, PlanSpaces, least_ram, scaled_macs, streamed_io

DEFAULT = Request()
MOST_FLASH_POINTS = 6  # plans of `by_flash`
MOST_SETS = 4  # kernel sets that objective `flash` tries; the next plan is the fastest
# `balanced` uses kernels with less Flash only if RAM x Flash x cycles falls below this fraction of the product with the fastest
# kernels. A smaller gain may be an error of the estimates of code size and cycles.
SMALLER_SET_PAYS = 0.95
SLOWEST_SET = 1.05  # a set with less Flash may take so many times the cycles: a board with room should not get slow kernels
PORTABLE_PAYS = 1.02  # `size` takes other kernels than portable ones, which are slow, if they need less than this times the RAM

SpaceCache = dict[tuple[Graph, StreamedIO, bool], PlanSpaces]
"""Plan spaces by graph, streamed inputs and outputs, and `Request.fast`."""


def plan(graph: Graph, request: Request = DEFAULT, *, progress: Progress | None = None) -> Plan:
    """Return the checked plan of `graph` that a request asks for.

    Strategy `best` runs the ops in the order with the least peak RAM, and lets outputs overlap operands whose last use is the
    same step. It relocates tensors between steps, fuses ops into stages that run row by row or tile by tile, and recomputes
    tensors, each only if that makes the arena smaller. `unfused` does the same without fusion and recomputation. `layer`, the
    baseline, keeps the file's order and never overlaps an output with an operand. `patch` and `msf` are `unfused` with the
    fused stages of other planners (fuse/other_planners.py). `patch:N:K` has N x N patches of the first K layers; if a
    number is missing or 0, the planner searches for the best.

    If there are memory maps, the plan uses the first one that holds it, else the one with the least excess. If the best plan
    exceeds the Flash limit, the planner uses a smaller kernel set. Cycles are estimates from shapes. Raise CompileError if the
    strategy is unknown or cannot stream what the request asks for.
    """
    return PlanSearch(graph, request).plan(progress=progress)


def front(graph: Graph, request: Request = DEFAULT, *, progress: Progress | None = None) -> list[Plan]:
    """Return the Pareto-optimal plans of strategy `best` in RAM and cycles, the fewest cycles first.

    There are at most layouts.MOST_POINTS plans, each in one memory. The request's limits of RAM and time are ignored.
    """
    return PlanSearch(graph, replace(request, strategy="best")).front(progress)


def smallest_plan(graph: Graph, request: Request, kernels: KernelRule) -> Plan:
    """Return the unchecked plan with the least RAM that recomputes nothing; limits and objective are ignored."""
    return best_plan(PlanSpaces(graph, streamed_io(graph, request)).of((kernels,), request.strategy, 1.0), "size")


class PlanSearch:
    """A search for plans of one graph and request, for several objectives and limits of RAM and time.

    It caches plan spaces, with their solutions and plans, between calls.
    """

    def __init__(self, graph: Graph, request: Request = DEFAULT, known: SpaceCache | None = None) -> None:
        """Compute the kernel sets of the request.

        Searches with the same cache `known` share their plan spaces. None for a cache of this search alone.
        """
        self.graph, self.request, self.flash_limit = graph, request, request.limits.flash
        self.kernel_sets = kernel_sets(graph, request.core, request.limits.reads)
        known, key = {} if known is None else known, (graph, streamed_io(graph, request), request.fast)
        self._spaces = known.setdefault(key, PlanSpaces(*key))

    def spaces(self, kernel_set: int = -1) -> list[PlanSpace]:
        """Return the plan spaces (each with one order of the ops) that the strategy searches with one kernel set.

        `kernel_set` is the number of the set, from 0, the smallest, up; -1 is the fastest.
        """
        kernels = self.kernel_sets[-1] if kernel_set == -1 else self._all_sets[kernel_set]
        return self._spaces.of(tuple(kernels), self.request.strategy, self.request.max_mac_overhead)

    @cached_property
    def _all_sets(self) -> list[list[KernelRule]]:
        """Return all kernel sets, from the smallest to the fastest; without a core only that of the portable kernels."""
        less = sets_with_less_flash(self.graph, self.kernel_sets[0]) if self.request.core else []
        return [*less, *self.kernel_sets]

    @cached_property
    def least_bytes(self) -> int:
        """Return a lower bound in bytes on the RAM of every plan; NEVER (infinity) if there is no plan."""
        return least_ram(self.spaces())

    def plan(
        self,
        objective: Objective | None = None,
        limits: Limits | None = None,
        *,
        checked: bool = True,
        progress: Progress | None = None,
    ) -> Plan:
        """Return the best plan by an objective within limits of RAM and time; both are the request's if left out.

        If no plan is within the limits, return the fastest plan within the RAM, else the smallest plan. The Flash limit is
        always the request's. If `checked` is False, the plan has not been verified: callers may compare it with other plans,
        but not generate code from it. Raise CompileError if the plan would execute more multiply-accumulates than the request
        allows, or inputs cannot stream.
        """
        objective = objective or self.request.objective or ("balanced" if self.request.core else "size")
        limits = limits or self.request.limits
        best = self._in_one_memory(objective, limits, NEVER if limits.bytes is None else limits.bytes, progress)
        if self._exceeds_macs(best):
            raise self._mac_error()
        if limits.maps:
            best = self._in_memories(best, objective, limits, progress)
        return replace(check(best) if checked else best, objective=objective)

    def problem_of(self, plan: Plan) -> tuple[Problem, Query]:
        """Return the problem and the query (`fastest` within its bytes) whose solution became a plan that this search has made.

        To report a fault of the planner, save both: `solve` needs neither the model nor its weights.
        """
        for space in (space for of in self._spaces.known.values() for space in of):
            for (stages, _), plans in space.plans.items():
                if any(each.stages is plan.stages for each in plans):
                    return space.search.problem, ("fastest", max(stage.bytes for stage in stages), NEVER)
        raise ValueError("the plan is of another search")

    def _in_one_memory(self, objective: Objective, limits: Limits, byte_limit: int, progress: Progress | None) -> Plan:
        """Return the best plan in one memory, which holds `byte_limit` bytes. It is not checked."""
        cycle_limit = NEVER if limits.cycles is None else limits.cycles
        if objective == "flash":
            return self._least_flash(byte_limit, cycle_limit, progress)
        last = self._balanced_set(limits, cycle_limit, progress) if objective == "balanced" else -1
        best = self._within_flash(objective, byte_limit, cycle_limit, progress, last=last)
        return self._least_ram(best, limits, byte_limit) if objective == "size" else best

    def _least_ram(self, best: Plan, limits: Limits, byte_limit: int) -> Plan:
        """Return the plan with the least arena plus estimated stack: `best`, an unfused plan, or one with portable kernels.

        `best` has the least arena of all plans and, of those, the fewest cycles. The loops of fused stages take stack, so an
        unfused plan may need less RAM. Portable kernels take the least stack, but several times the cycles: they must save a
        share of the RAM (PORTABLE_PAYS), or meet the limit. A plan that exceeds the limit of RAM, Flash or time is only chosen
        if the others do, too.
        """
        core, cycle_limit = self.request.core, NEVER if limits.cycles is None else limits.cycles

        def cost(each: Plan, pays: float = 1.0) -> tuple[int, bool, int, float]:
            over = max(0, _ram(each) - byte_limit)
            late = 0 if cycle_limit == NEVER else max(0, self._cycles(each) - cycle_limit)
            return over, not self._fits_flash(each), late, (_ram(each) + stack_bytes(each, core)) * pays

        def better(one: Plan, kernels: KernelSet, strategy: str, pays: float = 1.0) -> Plan:
            """Return the better of a plan and the best one of a strategy with other kernels, whose RAM counts `pays` times."""
            spaces = self._spaces.of(kernels, strategy, self.request.max_mac_overhead)
            if (least_ram(spaces) + least_stack(self.graph, kernels, core)) * pays >= cost(one)[-1]:
                return one
            other = min((best_plan(spaces, each, byte_limit, cycle_limit) for each in objectives), key=cost)
            return other if cost(other, pays) < cost(one) else one

        objectives: list[PathObjective] = ["size"] if cycle_limit == NEVER else list(COSTS)
        may_unfuse = self.request.strategy == "best" and not any(self._spaces.streams)

        def better_unfused(one: Plan, kernels: KernelSet, pays: float = 1.0) -> Plan:
            return better(one, kernels, "unfused", pays) if may_unfuse and any(stage.schedule for stage in one.stages) else one

        pays = 1.0 if cost(best)[0] else PORTABLE_PAYS
        best = better_unfused(best, tuple(self.kernel_sets[-1]))
        return better_unfused(better(best, (PORTABLE,), self.request.strategy, pays), (PORTABLE,), pays) if core else best

    def _in_memories(self, best: Plan, objective: Objective, limits: Limits, progress: Progress | None) -> Plan:
        """Return a plan with its buffers distributed over the device's memories. It is not checked.

        A plan within the sum of the memories may exceed one of them. Then a plan with less RAM by this excess is distributed,
        twice at most, then one that fits into the largest memory. If none fits, return the plan with the least excess.
        """
        largest, plans = max(max(memories.values()) for memories in limits.maps), list[Plan]()
        for most in (NEVER, NEVER, largest, 0):
            overlap, least = self.request.strategy != "layer", objective == "size"
            plans.append(distribute_over_maps(best, limits.maps, overlap=overlap, least=least))
            over = limits.ram_excess(plans[-1].arena) or 0
            smaller = min(most, _ram(best) - over)
            if not over or smaller < self.least_bytes:
                break
            best = self._in_one_memory(objective, limits, smaller, progress)
        return min(plans, key=lambda each: limits.ram_excess(each.arena) or 0)

    def front(self, progress: Progress | None = None, *, checked: bool = True) -> list[Plan]:
        """Return the Pareto-optimal plans in RAM and cycles, the fewest cycles first.

        Each plan equals the result of `plan` for objective `speed` with the plan's own RAM as the limit. If `checked` is False,
        the plans have not been verified: callers may compare them, but not generate code from them.
        """
        sizes = [candidate.bytes for candidate in best_candidates(self.spaces())]
        by_bytes = dict[int, Plan]()
        for number, size in enumerate(sizes):
            if progress:
                progress("planning the Pareto front", number, len(sizes))
            while size not in by_bytes:  # the fastest plan within `size` bytes may need fewer
                by_bytes[size] = self._within_flash("speed", size)
                size = _ram(by_bytes[size])
        plans = [made for size, made in by_bytes.items() if _ram(made) == size and not self._exceeds_macs(made)]
        if not plans:
            raise self._mac_error()
        plans = pareto_front(plans, lambda made: (self._cycles(made), _ram(made)))
        return [check(made) for made in plans] if checked else plans

    def by_flash(self, ram_limit: int | None = None, progress: Progress | None = None) -> list[Plan]:
        """Return the Pareto-optimal plans in bytes of Flash constants and in cycles, the fewest cycles first.

        The plans need at most `ram_limit` bytes of RAM (None for no limit). Each is the fastest plan of one kernel set, the
        kernels that each op may use. At most MOST_FLASH_POINTS sets are planned, chosen so that Flash grows in even steps.
        """
        needs = flash_and_cycles(self.graph, self._all_sets, self.request.core, self.request.limits.reads)
        sizes, plans = [size for size, _ in needs], list[Plan]()
        targets = [sizes[0] + (sizes[-1] - sizes[0]) * number / (MOST_FLASH_POINTS - 1) for number in range(MOST_FLASH_POINTS)]
        numbers = {min(range(len(sizes)), key=lambda number: (abs(sizes[number] - target), number)) for target in targets}
        byte_limit = NEVER if ram_limit is None else ram_limit
        for done, number in enumerate(sorted(numbers, reverse=True)):
            if progress:
                progress("planning with less Flash", done, len(numbers))
            plans.append(best_plan(self.spaces(number), "speed", byte_limit))
        plans = [made for made in plans if _ram(made) <= byte_limit]
        plans = pareto_front(plans, lambda made: (self._cycles(made), constant_bytes(made.graph, made.variants)))
        return [check(made) for made in plans]

    def _least_flash(self, byte_limit: int, cycle_limit: int, progress: Progress | None) -> Plan:
        """Return the plan with the least code and constants within the limits. It is not checked.

        If none of the plans tried is within both limits, return the plan for objective `speed` instead.
        """
        core, reads = self.request.core, self.request.limits.reads
        sets = self._all_sets if core else [*sets_with_less_flash(self.graph, self.kernel_sets[0]), *self.kernel_sets]
        needs = flash_and_cycles(self.graph, sets, core, reads)
        able = [each for each, (_, cycles) in zip(sets, needs, strict=True) if cycles <= cycle_limit]
        for kernel_set in able[:MOST_SETS]:
            for spaces, objective, relocates in self._by_code(tuple(kernel_set)):
                best = best_plan(spaces, objective, byte_limit, cycle_limit, progress, relocates=relocates)
                if _ram(best) <= byte_limit and self._cycles(best) <= cycle_limit:
                    return best
        return self._within_flash("speed", byte_limit, cycle_limit, progress)

    def _by_code(self, kernel_set: KernelSet) -> Iterator[tuple[list[PlanSpace], PathObjective, bool]]:
        """Yield (plan spaces, objective, whether to relocate) of a kernel set, those whose plans have the least code first.

        The code of a relocation is a call, the code of a fused stage a loop. So plans without both come first, then plans that
        only relocate, if strategy and streams allow plans without fusion. The fastest plan within the RAM comes last: among
        plans with fused stages, it fuses the fewest layers.
        """
        if self.request.strategy in ("best", "unfused") and not any(self._spaces.streams):
            unfused = self._spaces.of(kernel_set, "unfused")
            yield unfused, "size", False
            yield unfused, "size", True
        yield self._spaces.of(kernel_set, self.request.strategy, self.request.max_mac_overhead), "speed", True

    def _balanced_set(self, limits: Limits, cycle_limit: int, progress: Progress | None) -> int:
        """Return the number of the fastest kernel set that `balanced` may use; -1 is the fastest of all.

        The alternative to -1 is the set with the least product of Flash and cycles, as estimated without fused stages, among
        `kernel_sets` and those with at most SLOWEST_SET times the cycles of the first of these. If sets have equal products,
        take the largest. Make a plan with the fastest set and one with the alternative. Return the alternative if:

        - Flash is tighter than RAM: the alternative's plan takes a larger fraction of the Flash than the fastest set's plan
          takes of the RAM.
        - The product of RAM, Flash and cycles of the alternative's plan is less than SMALLER_SET_PAYS times the product of the
          fastest set's plan, and it needs no more RAM.

        Neither plan depends on the Flash limit, so more Flash never gives a worse plan. Without memory maps, return -1: raising
        a plain RAM limit must not change the set.
        """
        flash, core, reads = self.request.flash_to_balance, self.request.core, self.request.limits.reads
        if flash is None or not core or limits.bytes is None or not limits.maps:
            return -1
        fastest = best_plan(self.spaces(), "balanced", limits.bytes, cycle_limit, progress)
        if _likely_flash(fastest) * limits.bytes <= _ram(fastest) * flash:
            return -1
        needs = list(flash_and_cycles(self.graph, self._all_sets, core, reads))
        usual = len(needs) - len(self.kernel_sets)
        slowest = [SLOWEST_SET * needs[usual][1]] * usual + [NEVER] * len(self.kernel_sets)
        products = [size * took if took <= most else NEVER for (size, took), most in zip(needs, slowest, strict=True)]
        last = max(number for number, product in enumerate(products) if product == min(products))
        if last == len(needs) - 1:
            return -1
        other = best_plan(self.spaces(last), "balanced", limits.bytes, cycle_limit, progress)
        is_tighter = _likely_flash(other) * limits.bytes > _ram(fastest) * flash
        before, after = (_ram(each) * _likely_flash(each) * self._cycles(each) for each in (fastest, other))
        return last if is_tighter and _ram(other) <= _ram(fastest) and after < SMALLER_SET_PAYS * before else -1

    def _within_flash(
        self,
        objective: PathObjective,
        byte_limit: int,
        cycle_limit: int = NEVER,
        progress: Progress | None = None,
        *,
        last: int = -1,
    ) -> Plan:
        """Return a plan that fits into Flash, or the plan with the smallest kernel set if no plan fits; `check` has not run.

        Kernel sets are numbered from the smallest to the fastest. Sets after number `last` are left out. Set `last` is planned
        first. If its plan does not fit, the kernels that smaller sets would have are predicted without planning
        (`predicted_kernels`). Planning goes on with the fastest set that is predicted to fit, then with smaller ones until a
        plan fits. The code of fused stages takes Flash, so a faster set may fit without them: the better of both is returned.
        A larger Flash limit begins at the same set or a faster one, so it never yields a slower plan. Objective `size` has no
        sets with less Flash: some of their kernels take less stack, which no plan without a limit would use.
        """
        best = best_plan(self.spaces(last), objective, byte_limit, cycle_limit, progress)
        if self._fits_flash(best):
            return best
        kernel_of = {op.name: name for op, name in zip(best.graph.ops, best.variants, strict=True)}
        sets, first = self._all_sets, len(self._all_sets) - len(self.kernel_sets) if objective == "size" else 0
        predicted = [predicted_kernels(self.graph, kernels, kernel_of) for kernels in sets[first:last]]
        needs = (flash_bytes(self.graph, variants, self.request.other_flash) for variants in predicted)
        fitting = [number for number, need in enumerate(needs, first) if self.flash_limit is None or need <= self.flash_limit]
        fitted, free = list[Plan](), self.request.strategy == "best" and not any(self._spaces.streams)
        for number in range(max(fitting, default=first), first - 1, -1):
            best = best_plan(self.spaces(number), objective, byte_limit, cycle_limit, progress)
            if self._fits_flash(best):
                fitted.append(best)
                break
            if free and not fitted and fused_layers(best):
                spaces = self._spaces.of(tuple(self._all_sets[number]), "unfused")
                unfused = best_plan(spaces, objective, byte_limit, cycle_limit)
                fitted += [unfused] * (_ram(unfused) <= byte_limit and self._fits_flash(unfused))
        return min(fitted, key=lambda each: COSTS[objective](Candidate(each, _ram(each), self._cycles(each))), default=best)

    def _fits_flash(self, plan: Plan) -> bool:
        """Return whether a plan fits into Flash, by the request's measurement or an estimate."""
        if self.flash_limit is None:
            return True
        return flash_bytes(plan.graph, plan.variants, self.request.other_flash, fused_layers(plan)) <= self.flash_limit

    def _exceeds_macs(self, plan: Plan) -> bool:
        """Return whether a plan executes more than `max_mac_overhead` times the network's MACs, if that limit is below 1.0.

        The path search already enforces limits of 1.0 and more. A plan can meet a smaller limit only if it skips rows that no
        op reads.
        """
        overhead = self.request.max_mac_overhead
        return overhead is not None and overhead < 1 and sum(plan_macs(plan)) > scaled_macs(macs(self.graph), overhead)

    def _mac_error(self) -> CompileError:
        what = f"no plan runs with {self.request.max_mac_overhead:g} times its work"
        return CompileError(what, "give 1.0 or more, or see 'plan --pareto'")

    def _cycles(self, plan: Plan) -> int:
        """Return the estimated cycles by which plans are compared; 0 if the core has no cycle model."""
        cycles_of = self.spaces()[0].cycles_of
        return round(cycles_to_compare(plan, cycles_of.core, cycles_of.reads)) if cycles_of.core else 0


def _ram(plan: Plan) -> int:
    return sum(plan.arena.values())


def _likely_flash(plan: Plan) -> int:
    return constant_bytes(plan.graph, plan.variants) + likely_code(plan)
