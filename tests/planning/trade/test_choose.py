"""Options pick a point of one front: what they say of it, and that a looser limit never costs anything."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise, product
from pathlib import Path
from types import SimpleNamespace

import pytest
from cases.graphs import Net
from cases.sweeps import rest_in_sweeps
from fuzz.generate import BY_ROW, random_network

from tinyweave import api, results
from tinyweave.devices import find
from tinyweave.ir import CompileError, Graph
from tinyweave.kernels.table import BY_NAME
from tinyweave.ops import macs
from tinyweave.planning import Plan, front, plan, planner, schedules, to_json
from tinyweave.planning.assemble import PlacedLayout
from tinyweave.planning.fuse.schedule import plan_macs
from tinyweave.planning.kernel_choice import Kernels
from tinyweave.planning.kernels.cycles import cycles_to_compare
from tinyweave.planning.place.relocation_ops import is_move
from tinyweave.planning.trade.choose import COSTS, Found
from tinyweave.planning.trade.space import Path as BytesOfPath

DIGITS = Path(__file__).parents[3] / "examples" / "keywords" / "digits.tflite"
CORE = "cortex-m4"
SEEDS = rest_in_sweeps(range(20), 8)
MOVING = (96, 136, 153, 291)  # networks of `by_row` whose fastest path is placed in fewer bytes with moves
WORD = 4
EVERY_OP = 100  # ops at most, of which each may round its cycles


def by_row(seed: int) -> Graph:
    return random_network(seed, random.Random(seed).randint(4, 12), growers=BY_ROW, live=2)


@pytest.fixture(scope="module")
def model() -> results.Model:
    return api.load(DIGITS)


def cycles(made: Plan) -> float:
    """Rounded, since ops in another order are added up in that order."""
    return round(cycles_to_compare(made, CORE), 6)


def size(made: Plan) -> int:
    return sum(made.arena.values())


def falls(values: Sequence[float]) -> bool:
    """Whether no value is more than the one before, but for the rounding of cycles."""
    return all(after <= before + EVERY_OP for before, after in pairwise(values))


@pytest.mark.parametrize("brought", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_planned_is_a_point_of_the_front(seed: int, brought: bool) -> None:
    graph, more = by_row(seed), {"core": CORE, "stream_inputs": brought, "max_mac_overhead": 1.3}
    try:
        points = front(graph, **more)
    except CompileError:
        assert brought  # what reads the input cannot do so by rows
        return
    assert all(a > b for a, b in pairwise(map(size, points)))
    assert all(a < b + EVERY_OP for a, b in pairwise(map(cycles, points)))
    least, balanced, fastest = (plan(graph, aim=aim, **more) for aim in ("size", "balanced", "speed"))
    assert size(least) == size(points[-1])
    assert size(fastest) == size(points[0]) and cycles(fastest) == cycles(points[0])
    # a path counts whole words, and whole cycles of each call
    assert size(balanced) * cycles(balanced) <= min((size(each) + WORD - 1) * (cycles(each) + EVERY_OP) for each in points)
    for each in points[:: max(len(points) // 4, 1)]:
        found = plan(graph, aim="speed", ram_limit=size(each), **more)
        assert (size(found), cycles(found)) == (size(each), cycles(each))


@pytest.mark.parametrize("seed", SEEDS[::2])
def test_a_looser_limit_never_costs_anything(seed: int) -> None:
    """Of RAM, of work done again, of cycles and of Flash: what the plan is chosen by never gets worse."""
    graph = by_row(seed)
    by = {"size": size, "speed": cycles, "balanced": lambda made: size(made) * cycles(made)}
    for aim, quantity in by.items():
        free = plan(graph, core=CORE, aim=aim)
        limits = [size(free) * tenths // 10 for tenths in (5, 8, 9, 10, 20)]
        plans = [plan(graph, core=CORE, aim=aim, ram_limit=limit) for limit in limits]
        within = [quantity(made) for made, limit in zip(plans, limits, strict=True) if size(made) <= limit]
        assert all(b <= a * 1.0001 + EVERY_OP for a, b in pairwise(within)) and within[-1] == quantity(free)
        work = [quantity(plan(graph, core=CORE, aim=aim, max_mac_overhead=over)) for over in (1.0, 1.05, 1.1, 1.5, 2.0)]
        assert all(b <= a * 1.0001 + EVERY_OP for a, b in pairwise(work)), aim
    fastest, least = plan(graph, core=CORE, aim="speed"), plan(graph, core=CORE, aim="size")
    limits = [round(cycles(fastest) + (cycles(least) - cycles(fastest)) * part / 4) + EVERY_OP for part in range(5)]
    for aim, quantity in by.items():
        some = limits if aim == "size" else limits[1::2]
        plans = [plan(graph, core=CORE, aim=aim, cycle_limit=limit) for limit in some]
        assert all(cycles(made) <= limit + EVERY_OP for made, limit in zip(plans, some, strict=True))
        values = [quantity(made) for made in [*plans, plan(graph, core=CORE, aim=aim)]]
        assert all(b <= a * 1.0001 + EVERY_OP for a, b in pairwise(values)), aim
    assert size(plan(graph, core=CORE, aim="size", cycle_limit=limits[-1])) == size(least)
    ram = (size(fastest) + size(least)) // 2
    late = plan(graph, core=CORE, aim="size", ram_limit=ram, cycle_limit=1)
    assert size(late) <= ram and cycles(late) <= cycles(plan(graph, core=CORE, aim="speed", ram_limit=ram)) + EVERY_OP


@pytest.mark.parametrize("seed", (6, 7, 36, 39, 43, 66))
def test_what_is_too_slow_is_the_fastest_that_fits_in_ram(seed: int) -> None:
    """Some limits lie between what a path needs and what its placement needs, so that the fastest path does not fit."""
    choices = planner.Choices(random_network(seed, 10 + seed % 10, growers=BY_ROW, live=3), core=CORE)
    least, most = (size(choices.plan(aim, checked=False)) for aim in ("size", "speed"))
    for ram in [least + (most - least) * part // 9 for part in range(1, 9)]:
        late = choices.plan("balanced", ram_limit=ram, cycle_limit=1, checked=False)
        fastest = choices.plan("speed", ram_limit=ram, checked=False)
        assert size(late) <= ram and cycles(late) == cycles(fastest)


@pytest.mark.parametrize("seed", SEEDS)
def test_known_spaces_change_no_plan(seed: int) -> None:
    """Whatever was asked of them before: spaces remember what they have worked out."""
    graph, shared = by_row(seed), planner.KnownSpaces()
    asked = [(schedule, overhead) for schedule in schedules.SCHEDULES for overhead in (None, 1.2)]
    random.Random(seed).shuffle(asked)
    for schedule, overhead in asked:
        known, fresh = (
            planner.Choices(graph, schedule, core=CORE, max_mac_overhead=overhead, known=spaces) for spaces in (shared, None)
        )
        for aim in COSTS:
            assert to_json(known.plan(aim)) == to_json(fresh.plan(aim)), (schedule, overhead, aim)
        assert list(map(to_json, known.front())) == list(map(to_json, fresh.front())), (schedule, overhead)


def slower_with_more(graph: Graph, overhead: float) -> list[tuple[int, float]]:
    """Return the limits of RAM, and their plans' cycles, at which the fastest plan takes longer than at a tighter one."""
    choices, found = planner.Choices(graph, core=CORE, max_mac_overhead=overhead), list[tuple[int, float]]()
    free, least = (size(choices.plan(aim, checked=False)) for aim in ("speed", "size"))
    for limit in sorted({least + (free - least) * part // 8 for part in range(9)} | {free - 1, 2 * free}):
        made = choices.plan("speed", ram_limit=limit, checked=False)
        if size(made) <= limit:
            found.append((limit, cycles(made)))
    assert found[-1][1] == cycles(choices.plan("speed", checked=False))
    rounding = len(graph.ops)  # the search takes whole cycles of each call
    return [after for before, after in pairwise(found) if after[1] > before[1] + rounding]


@pytest.mark.parametrize("seed", MOVING)
def test_more_ram_never_costs_cycles(seed: int) -> None:
    """The fastest plan has moves only where it does not fit without them; else they would cost time for nothing."""
    assert not slower_with_more(by_row(seed), 1.0)
    assert not any(map(is_move, plan(by_row(seed), core=CORE, aim="speed").graph.ops))


@pytest.mark.shared
@pytest.mark.parametrize("name", ["quality_samy", "quality_mcunet-10fps_vww"])
def test_more_ram_never_costs_cycles_of_real_networks(name: str, shared: Path) -> None:
    real = shared / "models" / f"harvard-edge__Wake_Vision__wv_{name}.tflite"
    assert not slower_with_more(api.load(real, "int8", layout="nhwc").graph, 1.1)


@pytest.mark.shared
def test_moves_that_take_too_long_leave_time_for_others(shared: Path) -> None:
    """The path with the fewest bytes within the looser limit needs moves that exceed it; another one has time for its moves."""
    model = api.load(shared / "models" / "SiliconLabs__mltk__fingerprint_signature_generator.tflite", "int8", layout="nhwc")
    choices = planner.Choices(model.graph, core=CORE, max_mac_overhead=1.1)
    limits = 46_667_795, 49_294_032
    tight, loose = (choices.plan("size", cycle_limit=limit, checked=False) for limit in limits)
    assert cycles(tight) <= limits[0] and cycles(loose) <= limits[1]
    assert size(loose) <= size(tight)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("core", ["", CORE])
def test_cycles_of_a_path_are_those_of_its_plan(seed: int, core: str) -> None:
    """The cycles that the search counts are those of the plan that comes of it."""
    graph, found, laid_out = by_row(seed), list[Found](), schedules.PlanSpace.laid_out

    def noted(source: schedules.PlanSpace, each: Found) -> PlacedLayout:
        found.append(each)
        return laid_out(source, each)

    for overhead, aim in product((1.0, 1.5), ("size", "balanced", "speed")):
        found.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(schedules.PlanSpace, "laid_out", noted)
            made = plan(graph, core=core, aim=aim, max_mac_overhead=overhead)
        assert sum(plan_macs(made)) <= overhead * macs(graph)
        if not any(map(is_move, made.graph.ops)):  # which placement adds where buffers do not fit otherwise
            foreseen = cycles_to_compare(made, CORE if core else "cortex-m3")
            assert any(abs(foreseen - each.path.cycles) <= EVERY_OP for each in found)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("schedule", ["best", "unfused", "stream2d"])
def test_bytes_of_a_path_are_those_of_its_plan(seed: int, schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for what aligning buffers and distances to words makes of them; also where each op has one kernel, with scratch."""
    graph, found, laid_out = by_row(seed), list[Found](), schedules.PlanSpace.laid_out

    def noted(source: schedules.PlanSpace, each: Found) -> PlacedLayout:
        found.append(each)
        return laid_out(source, each)

    monkeypatch.setattr(schedules.PlanSpace, "laid_out", noted)
    makers = (
        lambda: plan(graph, schedule),
        lambda: plan(graph, schedule, core=CORE),
        lambda: planner.smallest_plan(graph, schedule, "sram", Kernels(CORE)),
    )
    for make in makers:
        found.clear()
        made = make()
        words = 3 * len(made.buffers)
        assert any(-4 < made.lower_bound - each.path.bytes <= words for each in found)


@pytest.mark.parametrize("optimize", ["speed", "balanced"])
def test_no_plan_is_slower_and_larger_than_op_by_op(model: results.Model, optimize: str) -> None:
    unfused = plan(model.graph, "unfused", core=CORE, aim="speed")
    made = api.plan(model, optimize=optimize, core=CORE)
    assert cycles(made) <= cycles(unfused) + EVERY_OP or size(made) * cycles(made) <= size(unfused) * cycles(unfused)
    assert size(made) <= size(unfused)


def test_more_time_buys_memory(model: results.Model) -> None:
    speed, balanced, least = (api.plan(model, optimize=name, core=CORE) for name in ("speed", "balanced", "size"))
    assert size(least) < size(balanced) <= size(speed) and cycles(speed) <= cycles(balanced) < cycles(least)


def test_memory_that_is_short_costs_time(model: results.Model) -> None:
    fast, least = (api.plan(model, optimize=name, core=CORE) for name in ("speed", "size"))
    found = []
    for ram in (size(fast), size(fast) - 1, (size(fast) + size(least)) // 2):
        made = api.plan(model, limits=results.Limits(ram, None), optimize="speed", core=CORE)
        assert size(made) <= ram
        found.append(cycles(made))
    assert found == sorted(found) and found[0] == cycles(fast) < found[1]


def test_where_nothing_fits_the_smallest_is_shown(model: results.Model) -> None:
    made = api.plan(model, limits=results.Limits(100, None), optimize="speed", core=CORE)
    assert size(made) == size(api.plan(model, optimize="size"))


def test_where_not_even_the_input_fits_few_kernels_are_taken_back() -> None:
    """Only that of the first layer, whose scratch would lie beside the input; the others need less than it."""
    net = Net(64, 64, 8)
    graph = net.finish("input", net.conv(net.conv(net.conv("image", 4, 3, 4), 6, 3, 2), 8, 3, 2))
    made = plan(graph, core=CORE, ram_limit=100)
    assert size(made) == size(plan(graph))
    assert made.variants[:3] == ("tw_conv_2d_s8_lean_dsp", "tw_conv_2d_s8_dsp", "tw_conv_2d_s8_dsp")


@pytest.mark.parametrize("core", ["rv32imac", "sifive-e31", "cortex-m85"])
def test_a_core_whose_cycles_are_not_known_gets_what_its_like_gets(model: results.Model, core: str) -> None:
    like = {"cortex-m85": "cortex-m55"}.get(core, "rv32imc")
    made, other = (api.plan(model, core=name) for name in (core, like))
    assert (made.offsets, made.variants) == (other.offsets, other.variants)


def test_xtensa_has_portable_kernels_and_no_cycles(model: results.Model) -> None:
    assert not any(BY_NAME[name].cores for name in api.plan(model, core="xtensa-lx7").variants if name)
    assert api.cycles_needed(api.plan(model, core="xtensa-lx7"), find("esp32-s3")) is None


def test_a_sifive_e31_has_no_cycles_before_it_runs(model: results.Model) -> None:
    board = find("fe310-g002")
    made = api.plan(model, core=board.core)
    assert api.cycles_needed(made, board) is api.latency_ms(made, board) is None and api.layer_cycles_needed(made, board) == {}


@pytest.mark.parametrize(("placed", "looks"), [(10_100, 0), (10_101, 1)])
def test_other_paths_are_laid_out_where_a_placement_needs_a_hundredth_more_than_its_path(
    placed: int, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid_out, path, other = list[BytesOfPath](), BytesOfPath((), 10_000, 5), BytesOfPath((), 9_000, 6)
    point = planner._Point(SimpleNamespace(bytes=placed), Found(0, path))  # type: ignore[arg-type]
    trade = SimpleNamespace(path=lambda number, limit: other)
    monkeypatch.setattr(planner, "_laid_out", lambda spaces, found: laid_out.append(found.path) or [point])
    assert planner._placed_better([], trade, [point], Found(0, path)) == ([point], Found(0, path))  # type: ignore[arg-type]
    assert len(laid_out) == looks
