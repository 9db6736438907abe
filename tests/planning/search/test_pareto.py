"""Options choose a point of the Pareto front, and a looser limit never worsens the objective."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise, product
from pathlib import Path as FilePath
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cases.graphs import Net
from cases.sweeps import rest_in_sweeps
from fuzz.generate import BY_ROW, random_network

from tinynas.costs import model_of
from tinyweave import api
from tinyweave.api import results
from tinyweave.devices import find
from tinyweave.ir import CompileError, Graph, Op, Quant, Tensor, verify
from tinyweave.kernels.layer_cycles import cost_model_core, layer_cycles
from tinyweave.kernels.table import BY_NAME
from tinyweave.ops import macs
from tinyweave.planning import Limits, Plan, Request, constant_bytes, front, layouts, plan, planner, strategies, to_json
from tinyweave.planning.fuse.row_access import WHOLE
from tinyweave.planning.fuse.row_schedule import plan_macs
from tinyweave.planning.kernel_choice import KernelRule
from tinyweave.planning.kernels.cycles import cycles_to_compare, kernel_calls
from tinyweave.planning.kernels.stack import stack_bytes
from tinyweave.planning.place.relocation_ops import is_move
from tinyweave.planning.search.pareto import COSTS, Candidate
from tinyweave.planning.search.path_search import Solution

DIGITS = FilePath(__file__).parents[3] / "examples" / "keywords" / "digits.tflite"
CORE = "cortex-m4"
SEEDS = rest_in_sweeps(range(20), 8)
MOVING = (96, 136, 153, 291)  # networks of `by_row` whose fastest path needs fewer bytes with moves
WORD = 4
EVERY_OP = 100  # most ops of a network, each of which may round its cycles


def by_row(seed: int) -> Graph:
    return random_network(seed, random.Random(seed).randint(4, 12), growers=BY_ROW, live=2)


@pytest.fixture(scope="module")
def model() -> results.Model:
    return api.load(DIGITS)


def cycles(made: Plan) -> float:
    """Return rounded cycles, since the sum in floats depends on the order of ops."""
    return round(cycles_to_compare(made, CORE), 6)


def size(made: Plan) -> int:
    return sum(made.arena.values())


def need(made: Plan, core: str = CORE) -> int:
    """Return what objective `size` minimises."""
    return size(made) + stack_bytes(made, core)


@pytest.mark.parametrize("brought", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_plan_is_a_point_of_the_front(seed: int, brought: bool) -> None:
    graph, more = by_row(seed), {"core": CORE, "stream_inputs": brought, "max_mac_overhead": 1.3}
    try:
        points = front(graph, Request(**more))
    except CompileError:
        assert brought  # a reader of the input cannot run by rows
        return
    assert all(a > b for a, b in pairwise(map(size, points)))
    assert all(a < b + EVERY_OP for a, b in pairwise(map(cycles, points)))
    least, balanced, fastest = (
        plan(graph, Request(objective=objective, **more)) for objective in ("size", "balanced", "speed")
    )
    assert need(least) <= need(points[-1])
    assert size(fastest) == size(points[0]) and cycles(fastest) == cycles(points[0])
    # a path counts whole words, and whole cycles of each call
    assert size(balanced) * cycles(balanced) <= min((size(each) + WORD - 1) * (cycles(each) + EVERY_OP) for each in points)
    for each in points:
        assert to_json(plan(graph, Request(objective="speed", limits=Limits(ram=size(each)), **more))) == to_json(each)


def call_cycles(made: Plan) -> int:
    """Return the cycles of all calls, each rounded as in the search, without moves between steps."""
    once = {
        (index, part): round(layer_cycles(made.graph, made.graph.ops[index], made.variants[index], CORE, part) or 0)
        for index, part, _ in kernel_calls(made)
    }
    calls = ((index, part, count) for index, part, count in kernel_calls(made) if not is_move(made.graph.ops[index]))
    return sum(count * once[index, part] for index, part, count in calls)


def is_proved(search: planner.PlanSearch, points: Sequence[Plan]) -> bool:
    """Return whether no path takes fewer cycles than a point, without moves, within the point's bytes minus its gap."""
    fastest_in = strategies.fastest_in(search.spaces())
    fastest = [(fastest_in(size(each) - each.gap), each) for each in points]
    return all(found is None or found.cycles >= call_cycles(each) for found, each in fastest)


@pytest.mark.parametrize("overhead", [1.0, 1.3])
@pytest.mark.parametrize("seed", SEEDS)
def test_points_of_the_front_are_proved_by_the_search(seed: int, overhead: float) -> None:
    search = planner.PlanSearch(by_row(seed), Request(core=CORE, max_mac_overhead=overhead))
    assert is_proved(search, search.front(checked=False))


@pytest.mark.parametrize("seed", SEEDS[::2])
def test_earlier_queries_of_a_plan_search_do_not_change_its_results(seed: int) -> None:
    """A PlanSearch caches results per limit."""
    used, fresh = (planner.PlanSearch(by_row(seed), Request(core=CORE, max_mac_overhead=1.3)) for _ in range(2))
    points = fresh.front(checked=False)
    for objective, each in product(COSTS, points[::3]):
        used.plan(objective, Limits(ram=size(each) - WORD), checked=False)
        used.plan(objective, checked=False)
    assert list(map(to_json, used.front(checked=False))) == list(map(to_json, points))


def same_by_ram(model: results.Model, flash: int | None = None) -> int:
    """Check that each point of a front is the fastest plan with its bytes; return the number of points."""
    known, limits = planner.SpaceCache(), api.Limits(None, flash)
    points = api.front(model, api.Request(limits=limits, core=CORE), known=known)
    for each in points:
        request = api.Request(objective="speed", limits=api.Limits(size(each), flash), core=CORE)
        assert to_json(api.make_plan(model, request, known=known)) == to_json(each)
    return len(points)


def test_points_of_a_front_equal_plans_with_their_ram_as_limit(model: results.Model) -> None:
    assert same_by_ram(model) > 5
    assert same_by_ram(model, flash=20_000) > 1


REAL = {
    "resnet": "mlcommons__tiny__pretrainedResnet_quant",
    "vww": "mlcommons__tiny__vww_96_int8",
    "gestures": "bvenreply__stm32ai-modelzoo__gmp_wl_24_int8",
}


@pytest.mark.shared
@pytest.mark.parametrize("name", REAL.values(), ids=list(REAL))
def test_points_of_a_front_of_real_networks_equal_plans(name: str, shared: FilePath) -> None:
    """In ResNet-8 flash-heavy kernels are faster, but exceed TFLite Micro's Flash."""
    real = api.load(shared / "models" / f"{name}.tflite")
    assert same_by_ram(real) > 2
    search = planner.PlanSearch(real.graph, Request(core=CORE))
    assert is_proved(search, search.front(checked=False))


def dense_chain(*sizes: int) -> Graph:
    """Return a chain of fully connected layers, as in autoencoders."""
    tensors, ops = {"x0": Tensor("x0", (1, sizes[0]), "int8", Quant((2.0**-4,), (0,)))}, list[Op]()
    for number, (before, after) in enumerate(pairwise(sizes)):
        values = np.random.default_rng(number).integers(-127, 128, (after, before)).astype(np.int8)
        tensors[f"w{number}"] = Tensor(f"w{number}", values.shape, "int8", Quant((2.0**-7,), (0,)), values, "constant")
        tensors[f"x{number + 1}"] = Tensor(f"x{number + 1}", (1, after), "int8", Quant((2.0**-4,), (0,)))
        attrs = {"activation": "none", "keep_num_dims": False}
        ops.append(Op(f"dense_{number}", "fully_connected", (f"x{number}", f"w{number}", None), (f"x{number + 1}",), attrs))
    return verify(Graph("chain", tensors, tuple(ops), ("x0",), (f"x{len(ops)}",)))


def assert_each_objective_is_best_at_its_value(model: results.Model, core: str) -> None:
    """Check that no objective is beaten by another at its own value."""
    plans = [api.plan(model, core, optimize=name) for name in ("size", "balanced", "speed")]
    needs = [need(made, core) for made in plans]
    assert needs[0] == min(needs) and size(plans[1]) <= size(plans[2])
    like = [cycles_to_compare(made, cost_model_core(core)) for made in plans]
    products = [bytes_ * taken for bytes_, taken in zip(map(size, plans), like, strict=True)]
    assert like[2] <= min(like) + EVERY_OP
    assert products[1] <= products[0] + EVERY_OP * size(plans[0])
    if constant_bytes(plans[2].graph, plans[2].variants) <= constant_bytes(plans[1].graph, plans[1].variants):
        assert products[1] <= products[2] + EVERY_OP * size(plans[2])


@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m0plus", "cortex-m55", "rv32imc"])
def test_no_objective_loses_to_another_at_its_own_objective(core: str) -> None:
    """Kernels of a core may need other overlap distances than portable ones: dense ones write four outputs at once."""
    for number, sizes in enumerate(((640, 128, 8, 128, 640), (1, 16, 16, 1), (30, 10, 10))):
        assert_each_objective_is_best_at_its_value(model_of(dense_chain(*sizes)), core)
        assert_each_objective_is_best_at_its_value(model_of(random_network(number, 10, growers=BY_ROW, live=2)), core)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_objective_loses_on_random_networks(seed: int) -> None:
    assert_each_objective_is_best_at_its_value(model_of(random_network(seed, random.Random(seed).randint(4, 12))), CORE)


SMALL = 1_000_000  # MACs


@pytest.mark.shared
def test_no_objective_loses_on_real_networks(shared: FilePath) -> None:
    checked = 0
    for path in sorted((shared / "models").glob("*.tflite")):
        try:
            real = api.load(path)
            taken = macs(real.graph) <= SMALL and api.plan(real, schedule="layer") is not None
        except CompileError:
            continue
        if taken:
            assert_each_objective_is_best_at_its_value(real, CORE)
            checked += 1
    assert checked > 10


@pytest.mark.parametrize("seed", SEEDS[::2])
def test_a_looser_limit_never_worsens_the_objective(seed: int) -> None:
    """The limits are those of RAM, recomputation, cycles and Flash."""
    graph = by_row(seed)
    by = {"size": need, "speed": cycles, "balanced": lambda made: size(made) * cycles(made)}
    for objective, quantity in by.items():
        free = plan(graph, Request(objective=objective, core=CORE))
        limits = [size(free) * tenths // 10 for tenths in (5, 8, 9, 10, 20)]
        plans = [plan(graph, Request(objective=objective, limits=Limits(ram=limit), core=CORE)) for limit in limits]
        within = [quantity(made) for made, limit in zip(plans, limits, strict=True) if size(made) <= limit]
        assert all(b <= a * 1.0001 + EVERY_OP for a, b in pairwise(within)) and within[-1] == quantity(free)
        work = [
            quantity(plan(graph, Request(objective=objective, core=CORE, max_mac_overhead=over)))
            for over in (1.0, 1.05, 1.1, 1.5, 2.0)
        ]
        assert all(b <= a * 1.0001 + EVERY_OP for a, b in pairwise(work)), objective
    fastest, least = plan(graph, Request(objective="speed", core=CORE)), plan(graph, Request(objective="size", core=CORE))
    limits = [round(cycles(fastest) + (cycles(least) - cycles(fastest)) * part / 4) + EVERY_OP for part in range(5)]
    for objective, quantity in by.items():
        some = limits if objective == "size" else limits[1::2]
        plans = [
            plan(graph, Request(objective=objective, limits=Limits(latency_ms=limit, clock_hz=1000), core=CORE))
            for limit in some
        ]
        assert all(cycles(made) <= limit + EVERY_OP for made, limit in zip(plans, some, strict=True))
        values = [quantity(made) for made in [*plans, plan(graph, Request(objective=objective, core=CORE))]]
        assert all(b <= a * 1.0001 + EVERY_OP for a, b in pairwise(values)), objective
    enough = plan(graph, Request(objective="size", limits=Limits(latency_ms=limits[-1], clock_hz=1000), core=CORE))
    assert need(enough) <= need(least) * planner.PORTABLE_PAYS
    ram = (size(fastest) + size(least)) // 2
    late = plan(graph, Request(objective="size", limits=Limits(ram=ram, latency_ms=1, clock_hz=1000), core=CORE))
    assert (
        size(late) <= ram
        and cycles(late) <= cycles(plan(graph, Request(objective="speed", limits=Limits(ram=ram), core=CORE))) + EVERY_OP
    )


@pytest.mark.parametrize("seed", (6, 7, 36, 39, 43, 66))
def test_if_no_plan_is_fast_enough_the_fastest_that_fits_in_ram_is_chosen(seed: int) -> None:
    """Some limits are between the bytes of a path and of its placement, so that the fastest path does not fit."""
    search = planner.PlanSearch(random_network(seed, 10 + seed % 10, growers=BY_ROW, live=3), Request(core=CORE))
    least, most = (size(search.plan(objective, checked=False)) for objective in ("size", "speed"))
    for ram in [least + (most - least) * part // 9 for part in range(1, 9)]:
        late = search.plan("balanced", Limits(ram=ram, latency_ms=1, clock_hz=1000), checked=False)
        fastest = search.plan("speed", Limits(ram=ram), checked=False)
        assert size(late) <= ram and cycles(late) == cycles(fastest)


@pytest.mark.parametrize("seed", SEEDS)
def test_shared_plan_spaces_do_not_change_plans(seed: int) -> None:
    """Plan spaces cache their results, in any order of queries."""
    graph, shared = by_row(seed), planner.SpaceCache()
    asked = [(schedule, overhead) for schedule in strategies.STRATEGIES for overhead in (None, 1.2)]
    random.Random(seed).shuffle(asked)
    for schedule, overhead in asked:
        known, fresh = (
            planner.PlanSearch(graph, Request(schedule, core=CORE, max_mac_overhead=overhead), known=spaces)
            for spaces in (shared, None)
        )
        for objective in COSTS:
            assert to_json(known.plan(objective)) == to_json(fresh.plan(objective)), (schedule, overhead, objective)
        assert list(map(to_json, known.front())) == list(map(to_json, fresh.front())), (schedule, overhead)


def slower_with_more(graph: Graph, overhead: float) -> list[tuple[int, float]]:
    """Return the RAM limits, and the cycles of their plans, at which the fastest plan takes longer than at a tighter limit."""
    search, found = planner.PlanSearch(graph, Request(core=CORE, max_mac_overhead=overhead)), list[tuple[int, float]]()
    free, least = (size(search.plan(objective, checked=False)) for objective in ("speed", "size"))
    for limit in sorted({least + (free - least) * part // 8 for part in range(9)} | {free - 1, 2 * free}):
        made = search.plan("speed", Limits(ram=limit), checked=False)
        if size(made) <= limit:
            found.append((limit, cycles(made)))
    assert found[-1][1] == cycles(search.plan("speed", checked=False))
    rounding = len(graph.ops)  # the search rounds the cycles of each call
    return [after for before, after in pairwise(found) if after[1] > before[1] + rounding]


@pytest.mark.parametrize("seed", MOVING)
def test_more_ram_never_costs_cycles(seed: int) -> None:
    """The fastest plan has moves only if it does not fit without them."""
    assert not slower_with_more(by_row(seed), 1.0)
    assert not any(map(is_move, plan(by_row(seed), Request(objective="speed", core=CORE)).graph.ops))


@pytest.mark.shared
@pytest.mark.parametrize("name", ["quality_samy", "quality_mcunet-10fps_vww"])
def test_more_ram_never_costs_cycles_of_real_networks(name: str, shared: FilePath) -> None:
    real = shared / "models" / f"harvard-edge__Wake_Vision__wv_{name}.tflite"
    assert not slower_with_more(api.load(real, io="int8", layout="nhwc").graph, 1.1)


@pytest.mark.shared
def test_a_path_whose_moves_exceed_the_time_limit_is_replaced(shared: FilePath) -> None:
    """The path of fewest bytes within the looser limit exceeds it with its moves; another path has time for its moves."""
    model = api.load(shared / "models" / "SiliconLabs__mltk__fingerprint_signature_generator.tflite", io="int8", layout="nhwc")
    search = planner.PlanSearch(model.graph, Request(core=CORE, max_mac_overhead=1.1))
    limits = 46_667_795, 49_294_032
    tight, loose = (search.plan("size", Limits(latency_ms=limit, clock_hz=1000), checked=False) for limit in limits)
    assert cycles(tight) <= limits[0] and cycles(loose) <= limits[1]
    assert size(loose) <= size(tight)


def laid_out(patch: pytest.MonkeyPatch) -> list[Solution]:
    """Return a list to which each solution is added that is laid out from now on."""
    found, lay_out = list[Solution](), strategies.PlanSpace.lay_out

    def noted(space: strategies.PlanSpace, solution: Solution, **more: bool) -> list[Plan]:
        found.append(solution)
        return lay_out(space, solution, **more)

    patch.setattr(strategies.PlanSpace, "lay_out", noted)
    return found


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("core", ["", CORE])
def test_the_search_counts_the_cycles_of_the_resulting_plan(seed: int, core: str) -> None:
    """Moves that placement adds are not counted."""
    graph = by_row(seed)
    for overhead, objective in product((1.0, 1.5), ("size", "balanced", "speed")):
        with pytest.MonkeyPatch.context() as patch:
            found = laid_out(patch)
            made = plan(graph, Request(objective=objective, core=core, max_mac_overhead=overhead))
        assert sum(plan_macs(made)) <= overhead * macs(graph)
        if not any(map(is_move, made.graph.ops)):  # placement adds moves if buffers do not fit otherwise
            portable = not any(name and BY_NAME[name].cores for name in made.variants)
            foreseen = cycles_to_compare(made, "cortex-m3" if not core or (objective == "size" and portable) else CORE)
            assert any(abs(foreseen - solution.cycles) <= EVERY_OP for solution in found)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("schedule", ["best", "unfused", "patch"])
def test_the_search_counts_the_bytes_of_the_resulting_plan(seed: int, schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They differ only by the alignment of buffers and distances. Plans with one kernel per op, with scratch, are included."""
    graph, found = by_row(seed), laid_out(monkeypatch)
    makers = (
        lambda: plan(graph, Request(schedule)),
        lambda: plan(graph, Request(schedule, core=CORE)),
        lambda: planner.smallest_plan(graph, Request(schedule), KernelRule(CORE)),
    )
    for make in makers:
        found.clear()
        made = make()
        words = 3 * len(made.buffers)
        assert any(-4 < made.lower_bound - solution.bytes <= words for solution in found)


@pytest.mark.parametrize("optimize", ["speed", "balanced"])
def test_no_plan_is_both_slower_and_larger_than_the_unfused_plan(model: results.Model, optimize: str) -> None:
    unfused = plan(model.graph, Request("unfused", objective="speed", core=CORE))
    made = api.plan(model, CORE, optimize=optimize)
    assert cycles(made) <= cycles(unfused) + EVERY_OP or size(made) * cycles(made) <= size(unfused) * cycles(unfused)
    assert size(made) <= size(unfused)


def test_if_the_input_does_not_fit_only_the_first_layer_loses_its_scratch() -> None:
    """The scratch of the first layer would add to the input; the other layers need fewer bytes than the input."""
    net = Net(64, 64, 8)
    graph = net.finish("input", net.conv(net.conv(net.conv("image", 4, 3, 4), 6, 3, 2), 8, 3, 2))
    made = plan(graph, Request(limits=Limits(ram=100), core=CORE))
    assert size(made) == size(plan(graph))
    assert made.variants[:3] == ("tw_conv_2d_s8_lean_dsp", "tw_conv_2d_s8_dsp", "tw_conv_2d_s8_dsp")


@pytest.mark.parametrize("core", ["rv32imac", "sifive-e31", "rv32imc-esp", "cortex-m85"])
def test_a_core_without_cycle_constants_gets_the_plan_of_a_similar_core(model: results.Model, core: str) -> None:
    like = {"cortex-m85": "cortex-m55"}.get(core, "rv32imc")
    made, other = (api.plan(model, name) for name in (core, like))
    assert (made.offsets, made.variants) == (other.offsets, other.variants)


def test_xtensa_has_portable_kernels_and_no_cycles(model: results.Model) -> None:
    assert not any(BY_NAME[name].cores for name in api.plan(model, "xtensa-lx7").variants if name)
    assert api.estimate_cycles(api.plan(model, "xtensa-lx7"), find("esp32-s3")) is None


def test_cycles_of_a_sifive_e31_are_not_predicted(model: results.Model) -> None:
    board = find("fe310-g002")
    made = api.plan(model, board.core)
    assert (
        api.estimate_cycles(made, board) is api.estimate_latency_ms(made, board) is None
        and api.estimate_layer_cycles(made, board) == {}
    )


@pytest.mark.parametrize(("placed", "looks"), [(10_100, 0), (10_101, 1)])
def test_a_placement_1_percent_above_its_path_makes_the_search_try_another(
    placed: int, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, solution, other = list[Solution](), Solution((), 10_000, 5, 1), Solution((), 9_000, 6)
    candidate: Any = Candidate(SimpleNamespace(), placed, 5)  # type: ignore[arg-type]
    spaces: Any = [None, SimpleNamespace(search=SimpleNamespace(fastest=lambda limit: other))]
    monkeypatch.setattr(layouts, "_laid_out", lambda spaces, solution, **more: tried.append(solution) or [candidate])
    assert layouts._smaller(spaces, [candidate], solution) == ([candidate], solution)
    assert tried == [other._replace(space=1)] * looks


def test_if_the_plan_of_the_best_solution_has_gaps_another_solution_may_give_a_better_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    near, far = Solution((), 100, 5), Solution((), 90, 6)
    placed = {near.bytes: 130, far.bytes: far.bytes}
    search = SimpleNamespace(fastest=lambda limit: next((each for each in (near, far) if each.bytes <= limit), None))
    spaces: Any = [SimpleNamespace(search=search)]
    monkeypatch.setattr(layouts, "_laid_out", lambda _, found, **more: [Candidate(found, placed[found.bytes], found.cycles)])
    assert layouts.best_plan(spaces, "balanced") == far


def test_objective_flash_moves_no_tensor_if_it_need_not() -> None:
    graph = by_row(153)
    assert any(map(is_move, plan(graph, Request("unfused", objective="size")).graph.ops))
    assert not any(map(is_move, plan(graph, Request(objective="flash", core=CORE)).graph.ops))


def test_plan_spaces_have_the_kernel_set_that_was_asked_for() -> None:
    spaces = strategies.PlanSpaces(random_network(1), WHOLE)
    for kernel_set in ((KernelRule(),), (KernelRule(), KernelRule(CORE))):
        assert {(space.kernel_set, space.nested) for space in spaces.of(kernel_set, "best")} == {
            (kernel_set, False),
            (kernel_set, True),
        }
