"""Evolution beats random search, keeps to the limits, and gives the same result after an interrupt."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from cases.stripes import StopError

from tinynas import evolution
from tinynas.arch import Arch, PlanGene, macs, to_json
from tinynas.costs import Costs, Overhead, Target, costs
from tinynas.evolution import (
    Evaluated,
    Evaluator,
    Evolution,
    best_of,
    check_feasible,
    evolve,
    fronts,
    objectives,
    quick_costs,
    without_plan,
)
from tinynas.ram.arena import arena
from tinynas.space import Choice, ElasticGroup, arch_of, networks_in, sensors, small_images, smallest, with_plan_genes
from tinyweave import api
from tinyweave.devices import find
from tinyweave.ir import CompileError

SPACE = replace(sensors(24, 2), poolings=("mean",))
BOARD = find("stm32f412")
TARGET = Target(BOARD, api.limits_of(BOARD, ram="3k", flash="40k", latency_ms=5), overhead=Overhead(500, 9000))
SMALL = Evolution(8, 4, 4, 4, 0.1, 3)


def cheap(archs: Sequence[Arch]) -> list[Costs | None]:
    """Return costs without a plan. Networks above 200,000 MACs do not fit; above 400,000 the cost is None."""
    counts = [macs(arch) for arch in archs]
    return [
        None if n > 400_000 else Costs(n // 100, n // 10, n, n / 1e5, {"macs": n - 2e5} if n > 200_000 else {}) for n in counts
    ]


def goodness(arch: Arch) -> float:
    """Return an accuracy that rewards kernels of 7 and many blocks, plus noise derived from the architecture."""
    kernels = [kernel for group in arch.groups for kernel in group.kernels]
    noise = int(hashlib.sha1(to_json(arch).encode()).hexdigest()[:4], 16) / 65536
    return (sum(kernel == 7 for kernel in kernels) + len(kernels) + noise) / 20


def measure(archs: Sequence[Arch]) -> Iterator[tuple[int, float]]:
    yield from reversed([(number, goodness(arch)) for number, arch in enumerate(archs)])


def test_evolution_beats_random_search_at_the_same_cost() -> None:
    settings = Evolution(20, 6, 10, 10, 0.1, 8)
    for seed in range(3):
        at_random = Evolution(settings.evaluations, 1, 0, 0, generations=0)
        bred, drawn = (evolve(SPACE, TARGET, 2, each, Evaluator(measure, cheap), seed=seed) for each in (settings, at_random))
        assert 170 < len({each.arch for each in bred}) == len(bred) <= len(drawn) == settings.evaluations == 180
        assert bred[0].accuracy > drawn[0].accuracy + 0.05, "more than two blocks or kernels"
        assert [each.accuracy for each in bred] == sorted((each.accuracy for each in bred), reverse=True)
        for each in bred + drawn:
            assert each.costs.fit and each.arch == arch_of(SPACE, each.choice, 2) and each.accuracy == goodness(each.arch)


def test_a_network_that_does_not_fit_is_never_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[Arch]()

    def watched(archs: Sequence[Arch]) -> Iterator[tuple[int, float]]:
        asked.extend(archs)
        return measure(archs)

    monkeypatch.setattr(evolution, "BATCH", 4)
    found = evolve(SPACE, TARGET, 2, Evolution(3, 2, 1, 1, 0.1, 1), Evaluator(watched), seed=1)
    assert len(asked) == len(set(asked)) == len(found) == 5
    assert [quick_costs(TARGET, arch) for arch in asked[:2]] == [
        each.costs for arch in asked[:2] for each in found if each.arch == arch
    ]
    assert all(each.costs.fit and each.costs.ram <= 3072 and each.costs.flash <= 40960 for each in found)


def test_an_interrupted_evolution_resumes_to_the_same_result(tmp_path: Path) -> None:
    whole = evolve(SPACE, TARGET, 2, SMALL, Evaluator(measure, cheap), seed=5)
    file, interrupted = tmp_path / "memory", 0
    priced_archs, measured_archs = list[Arch](), list[Arch]()

    def stopping_price(archs: Sequence[Arch]) -> list[Costs | None]:
        priced_archs.extend(archs)
        if len(priced_archs) % 3 == 1:
            raise StopError
        return cheap(archs)

    def stopping_measure(archs: Sequence[Arch]) -> Iterator[tuple[int, float]]:
        for number, accuracy in measure(archs):
            if len(measured_archs) % 3 == 2:
                measured_archs.append(archs[number])
                raise StopError
            measured_archs.append(archs[number])
            yield number, accuracy

    for _ in range(400):
        try:
            found = evolve(SPACE, TARGET, 2, SMALL, Evaluator(stopping_measure, stopping_price), file=file, seed=5)
            break
        except StopError:
            interrupted += 1
            with file.open("a") as out:
                out.write('\n["cut o')  # what a power cut leaves
    else:
        pytest.fail("it does not go on")
    assert interrupted > 10 and found == whole
    unused = Evaluator(lambda archs: pytest.fail("known"), lambda _: pytest.fail("known"))
    again = evolve(SPACE, TARGET, 2, SMALL, unused, file=file, seed=5)
    assert again == whole and whole != evolve(SPACE, TARGET, 2, SMALL, Evaluator(measure, cheap), seed=6)


@pytest.mark.parametrize(
    ("limits", "over"), [({"ram": "500"}, "ram by"), ({"flash": "4k"}, "flash by"), ({"latency_ms": 0.01}, "latency_ms by")]
)
def test_limits_below_the_smallest_network_are_refused_at_once(limits: dict[str, str], over: str) -> None:
    target = Target(BOARD, api.limits_of(BOARD, **limits), overhead=Overhead(500, 9000))
    least = costs(arch_of(SPACE, smallest(SPACE), 2), target)
    needs = f"{over}.*; it needs {least.ram:,} B of RAM, {least.flash:,} B of Flash, .* ms: raise the limits to that"
    with pytest.raises(CompileError, match=f"the smallest network of the space 'sensors' does not fit: it exceeds {needs}"):
        evolve(SPACE, target, 2, SMALL, Evaluator(lambda _: pytest.fail("measured"), lambda _: pytest.fail("quick_costs")))
    enough = {"ram": least.ram, "flash": least.flash, "latency_ms": least.ms}
    check_feasible(SPACE, replace(target, limits=api.limits_of(BOARD, **{key: enough[key] for key in limits})), 2)


def test_if_few_networks_fit_they_are_found_near_the_smallest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evolution, "TRIES", 4)
    least = macs(arch_of(SPACE, smallest(SPACE), 2))

    def strict(archs: Sequence[Arch]) -> list[Costs | None]:
        return [Costs(1, 1, n, 1.0, {} if n < 1.5 * least else {"macs": 1.0}) for n in map(macs, archs)]

    found = evolve(SPACE, TARGET, 2, SMALL, Evaluator(measure, strict))
    assert 1 <= len(found) <= SMALL.evaluations and all(each.costs.fit for each in found)
    only = evolve(SPACE, TARGET, 2, SMALL, Evaluator(measure, lambda archs: [None] * len(archs)))
    assert [each.arch for each in only] == [arch_of(SPACE, smallest(SPACE), 2)], "known to fit"


def point(ram: int, accuracy: float, ms: float = 1.0) -> Evaluated:
    arch = Arch((8, 8, 1), ram, ())
    return Evaluated(Choice((8, 8), 1.0, ()), arch, Costs(ram, 1, 1, ms, {}), accuracy)


def test_pareto_fronts_equal_those_of_brute_force() -> None:
    points = [point(ram, ((ram * 7 + right * 5) % 11) / 11, (ram * right) % 5) for ram, right in product(range(1, 9), range(6))]
    for against in (("ram",), ("ram", "ms")):
        left, found = list(points), list(fronts(points, against))
        for front in found:
            values = [objectives(each, against) for each in left]
            unbeaten = [
                each
                for each, ours in zip(left, values, strict=True)
                if not any(v != ours and all(a <= b for a, b in zip(v, ours, strict=True)) for v in values)
            ]
            assert sorted(map(id, front)) == sorted(map(id, unbeaten))
            left = [each for each in left if not any(each is other for other in front)]
        assert not left and len(found) > 1


def test_networks_with_the_largest_crowding_distance_are_kept() -> None:
    front = [point(10, 0.1), point(20, 0.3), point(38, 0.48), point(39, 0.49), point(40, 0.5)]
    worse = point(50, 0.4)
    kept = best_of([*front, worse], 3, ("ram",))
    assert front[0] in kept and front[4] in kept and worse not in kept
    assert front[1] in kept, "its neighbours lie farthest apart"
    assert best_of([*front, worse], 6, ("ram",))[5] == worse and best_of([*front, worse], 2, ()) == [front[4], front[3]]
    with pytest.raises(CompileError, match="the objective 'speed' is not known for this network; give ram, flash or macs"):
        best_of(front, 2, ("speed",))


def test_several_objectives_give_a_pareto_front() -> None:
    settings = replace(SMALL, against=("ram",), generations=6)
    found = evolve(SPACE, TARGET, 2, settings, Evaluator(measure, cheap), seed=2)
    single = evolve(SPACE, TARGET, 2, replace(settings, against=()), Evaluator(measure, cheap), seed=2)
    front, other = (next(fronts(each, ("ram",))) for each in (found, single))
    assert len(front) >= 4 and min(each.costs.ram for each in front) <= min(each.costs.ram for each in other)


def test_the_default_settings_are_those_of_the_paper() -> None:
    assert Evolution() == Evolution(100, 20, 50, 50, 0.1, 30) and Evolution().evaluations == 3100


def test_networks_that_fit_but_were_not_needed_may_be_sampled_again() -> None:
    choices = [smallest(SPACE)._replace(width=width) for width in (0.5, 1.0)]
    order = iter(choices * 100)
    seen = set[Arch]()

    def fitting(costs_of: evolution.CostFunction) -> list[tuple[Choice, Arch, Costs]]:
        return evolution._sample_fitting(
            lambda: next(order), 1, SPACE, 2, seen=seen, costs_of=costs_of, progress=lambda *_: None
        )

    fits = lambda archs: [Costs(1, 1, 1, 1.0, {}) for _ in archs]  # noqa: E731
    assert [fitting(fits)[0][0] for _ in choices] == choices and not fitting(fits)


def test_networks_that_differ_only_in_their_plan_gene_are_trained_once(tmp_path: Path) -> None:
    """Accuracy does not depend on the plan, costs do."""
    space = with_plan_genes(SPACE, stream_inputs=False, max_mac_overhead=None)
    asked = list[Arch]()

    def watched(archs: Sequence[Arch]) -> Iterator[tuple[int, float]]:
        asked.extend(archs)
        return measure(archs)

    found = evolve(space, TARGET, 2, Evolution(6, 3, 3, 6, 0.1, 3), Evaluator(watched, cheap), seed=2, file=tmp_path / "memory")
    assert {each.arch.plan for each in found} == set(space.plans) and {each.choice.redistributed for each in found} == {
        True,
        False,
    }
    assert len(asked) == len(set(asked)) <= len(found) == 33 and all(arch.plan is None for arch in asked)
    by_network = {without_plan(each.arch): each.accuracy for each in found}
    assert all(by_network[without_plan(each.arch)] == each.accuracy for each in found)


def test_costs_depend_on_the_plan_gene() -> None:
    """The best plan takes less RAM than the unfused one. A limit between the two is met by the best plan only."""
    space = with_plan_genes(small_images((24,)), stream_inputs=False, max_mac_overhead=None)
    choice, target = smallest(space), replace(TARGET, limits=api.limits_of(BOARD))
    arch = arch_of(space, choice, 2)
    apart, best = (costs(replace(arch, plan=plan), target) for plan in space.plans)
    assert best.ram < apart.ram and best == costs(without_plan(arch), target) and best.macs == apart.macs
    enough = target.overhead.ram + arena(arch)
    tight = replace(target, limits=api.limits_of(BOARD, ram=str(enough)))
    check_feasible(space, tight, 2)
    assert costs(arch, tight).fit and set(costs(replace(arch, plan=PlanGene("unfused")), tight).excess) == {"ram"}
    with pytest.raises(CompileError, match="exceeds ram by 1"):
        check_feasible(space, replace(target, limits=api.limits_of(BOARD, ram=str(enough - 1))), 2)


def test_a_space_without_new_children_ends_a_search() -> None:
    few = replace(SPACE, widths=(0.5,), groups=(ElasticGroup(16, 2, (1,), (3, 5), (1,)),))
    found = evolve(few, TARGET, 2, Evolution(2, 1, 1, 1, 0.5, 2), Evaluator(measure, cheap), seed=0)
    assert len(found) == 2 == networks_in(few)
