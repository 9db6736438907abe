"""Flash-heavy kernels are chosen within the Flash limit for the layers where they save most cycles."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from cases.graphs import Net
from cases.ops import cases
from cases.tiny import ramp

from tinyweave import api
from tinyweave.codegen import constant_bytes as emitted_bytes
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import Graph, verify
from tinyweave.kernels.layer_cycles import FlashReads
from tinyweave.kernels.table import BY_NAME, CODE_BYTES, FILES, code_bytes, kernels_for, variant_for
from tinyweave.planning import Limits, OtherFlash, Plan, PlanSearch, Request, constant_bytes, plan, planner, to_json
from tinyweave.planning.explain import kernel_reason
from tinyweave.planning.kernel_choice import KernelRule
from tinyweave.planning.kernels.cycles import cycles_to_compare
from tinyweave.planning.kernels.flash_budget import (
    LAYER_BYTES,
    flash_and_cycles,
    flash_bytes,
    kernel_sets,
    likely_code,
    sets_with_less_flash,
    unfused_kernels,
)
from tinyweave.simulate import emulated, target

CORE = "cortex-m4"
ROUNDING = 1e-4  # the search rounds the cycles of each call
ROOMY = "tw_conv_2d_s8_winograd_dsp"
DIGITS = Path(__file__).parents[3] / "examples" / "keywords" / "digits.tflite"


def network() -> Graph:
    """Return three convolutions that Winograd's kernel supports; the first has the largest map and the fewest weights."""
    net = Net(16, 16, 8)
    wide = net.conv(net.conv("image", 8, 3), 16, 3, stride=2)
    return filled(net.finish("convolutions", net.conv(net.conv(wide, 16, 3), 32, 3)))


def filled(graph: Graph) -> Graph:
    """Return a graph with the small values of `ramp` as its constants."""
    tensors = {
        name: replace(tensor, data=np.ascontiguousarray(ramp(tensor.shape) // 8)) if tensor.data is not None else tensor
        for name, tensor in graph.tensors.items()
    }
    return verify(replace(graph, tensors=tensors))


def flash_heavy(made: Plan) -> list[str]:
    return [op.name for op, name in zip(made.graph.ops, made.variants, strict=True) if name == ROOMY]


@pytest.fixture(scope="module")
def graph() -> Graph:
    return network()


def test_flash_heavy_kernels_are_chosen_where_they_save_most_cycles(graph: Graph):
    alone = [op.name for op in graph.ops if op.kind == "conv_2d" and op.attrs["stride"] == (1, 1)][:3]
    found = [
        flash_heavy(
            plan(
                graph,
                Request("unfused", objective="speed", limits=Limits(flash=flash), core=CORE, other_flash=(OtherFlash(0),)),
            )
        )
        for flash in range(0, 60_000, 2_000)
    ]
    assert found[0] == [] and found[-1] == alone and [alone[0]] in found
    assert all(set(less) <= set(more) or len(less) == len(more) for less, more in pairwise(found))


@pytest.mark.parametrize("flash", [8_000, 12_000, 20_000, 60_000])
def test_constants_fit_the_flash_limit(graph: Graph, flash: int):
    least = constant_bytes(graph, plan(graph, Request("unfused")).variants)
    made = plan(graph, Request(limits=Limits(flash=flash), core=CORE, other_flash=(OtherFlash(0),)))
    assert constant_bytes(made.graph, made.variants) <= max(flash, least)


def test_shared_constants_are_counted_once() -> None:
    net = Net(8, 6, 16)
    apart = net.finish("twice", net.conv(net.conv("image", 16, 3), 16, 3))
    first, second, *rest = apart.ops
    image = apart.tensors["image"].quant
    tensors = {name: replace(t, quant=image) if t.data is None else t for name, t in apart.tensors.items()}
    shared = replace(second, inputs=(second.inputs[0], *first.inputs[1:]))
    read = {name for op in (first, shared, *rest) for name in (*op.inputs, *op.outputs)}
    kept = {name: tensor for name, tensor in tensors.items() if name in read}
    alike = verify(Graph("twice", kept, (first, shared, *rest), apart.inputs, apart.outputs))
    for core in (CORE, "cortex-m0"):
        made = plan(alike, Request("unfused", core=core))
        each = [BY_NAME[name].flash(made.graph, op) for op, name in zip(made.graph.ops, made.variants, strict=True) if name]
        assert constant_bytes(made.graph, made.variants) == emitted_bytes(made) == sum(each) - each[0]
        assert each[0] > 2_000


def test_a_flash_limit_by_estimate_removes_only_flash_heavy_kernels(graph: Graph):
    search = PlanSearch(graph, Request("unfused", core=CORE))
    search.kernel_sets = search.kernel_sets[:1]  # without flash-heavy kernels
    for objective in ("balanced", "speed"):
        others = search.plan(objective)
        made = plan(
            graph,
            Request(
                "unfused", objective=objective, limits=Limits(flash=constant_bytes(others.graph, others.variants)), core=CORE
            ),
        )
        assert to_json(made) == to_json(others) and any(BY_NAME[name].cores for name in made.variants if name)


def test_measured_code_is_not_estimated_again(graph: Graph):
    made = plan(graph, Request(objective="speed", core=CORE))
    constants, names = constant_bytes(made.graph, made.variants), frozenset(made.variants) - {""}
    assert ROOMY in names and flash_bytes(made.graph, made.variants, [OtherFlash(1000, names)]) == constants + 1000
    assert flash_bytes(made.graph, made.variants, [OtherFlash(1000)]) == constants + 1000
    code = json.loads(CODE_BYTES.read_text())[f"{ROOMY}.c"]
    without = flash_bytes(made.graph, made.variants, [OtherFlash(1000, names - {ROOMY})])
    assert constants + 1000 + 0.7 * code <= without < constants + 1000 + code_bytes(names)
    fewer = flash_bytes(made.graph, made.variants, [OtherFlash(1000, names | {"tw_depthwise_conv_2d_s8_dsp"})])
    assert fewer < constants - 1000  # code that this plan does not need
    assert flash_bytes(made.graph, made.variants, [OtherFlash(1000, names, 2)], 4) > constants + 1000 + 2 * 300
    measured = [OtherFlash(3000, frozenset()), OtherFlash(1000, names, 4), OtherFlash(2000, names)]  # the nearest counts
    assert [flash_bytes(made.graph, made.variants, measured, fused) for fused in (0, 4)] == [constants + 2000, constants + 1000]
    assert flash_bytes(made.graph, made.variants, []) == constants + code_bytes(names) + LAYER_BYTES * len(made.graph.ops)


def test_points_of_a_front_within_a_flash_limit_equal_plans(graph: Graph):
    search = PlanSearch(graph, Request(core=CORE, max_mac_overhead=1.5, other_flash=(OtherFlash(0),)))
    free = search.front()
    needs = sorted({constant_bytes(made.graph, made.variants) for made in free})
    search.flash_limit = needs[0] + (needs[-1] - needs[0]) // 3
    plans = search.front()
    points = [(sum(made.arena.values()), cycles_to_compare(made, CORE)) for made in plans]
    assert len(needs) > 1 and len(free) > len(plans) > 2
    assert all(a[0] > b[0] and a[1] < b[1] for a, b in pairwise(points))
    for made, (size, cycles) in zip(plans, points, strict=True):
        assert constant_bytes(made.graph, made.variants) <= search.flash_limit
        within = search.plan("speed", Limits(ram=size))
        assert abs(cycles_to_compare(within, CORE) - cycles) <= ROUNDING * cycles


def test_plans_by_flash_trade_constants_for_cycles(graph: Graph):
    """The first plan is the fastest, the last has no flash-heavy kernel."""
    plans = PlanSearch(graph, Request(core=CORE)).by_flash()
    needs = [(cycles_to_compare(made, CORE), constant_bytes(made.graph, made.variants)) for made in plans]
    assert len(plans) > 2 and all(a[0] < b[0] and a[1] > b[1] for a, b in pairwise(needs))
    free = plan(graph, Request(objective="speed", core=CORE))
    assert needs[0] == (cycles_to_compare(free, CORE), constant_bytes(free.graph, free.variants))
    compact = plan(graph, Request(objective="flash", core=CORE))
    assert needs[-1][1] <= constant_bytes(compact.graph, compact.variants)
    ram = sum(plans[0].arena.values()) - 4
    within = PlanSearch(graph, Request(core=CORE)).by_flash(ram)
    assert within and all(sum(made.arena.values()) <= ram for made in within)


def test_every_kernel_file_has_a_measured_code_size():
    assert set(json.loads(CODE_BYTES.read_text())) == {name for name, path in FILES.items() if path.suffix == ".c"}


@pytest.mark.emulator
def test_a_deployment_uses_the_available_flash(graph: Graph, tmp_path: Path, emulator):
    path = tmp_path / "convolutions.tflite"
    path.write_bytes(to_tflite(graph))
    model = api.load(path)
    counts = []
    for flash in (None, 0):
        folder = tmp_path / str(flash)
        folder.mkdir()
        counts.append(
            api.deploy_model(
                model,
                folder,
                api.Request(objective="speed", limits=api.Limits(None, flash), core=api.DEFAULT_CORE),
                proof=api.ProofOptions(count=1),
            )
        )
    most, least = (done.profile.flash for done in counts)
    assert flash_heavy(counts[0].plan) and not flash_heavy(counts[1].plan) and not counts[1].fits
    for flash in (most, most - 1, (most + least) // 2):
        folder = tmp_path / str(flash)
        folder.mkdir()
        done = api.deploy_model(
            model,
            folder,
            api.Request(objective="speed", limits=api.Limits(None, flash), core=api.DEFAULT_CORE),
            proof=api.ProofOptions(count=1),
        )
        assert done.fits and done.verification.ok
        assert (done.plan.variants == counts[0].plan.variants) == (flash >= most)
        assert (folder / f"{ROOMY}.c").exists() == bool(flash_heavy(done.plan))


@pytest.mark.parametrize("core", [CORE, "cortex-m7", "cortex-m55", "cortex-m0", "cortex-m3", ""])
def test_smaller_kernel_sets_take_more_cycles(graph: Graph, core: str) -> None:
    """Each set can run with less Flash than the next; the largest of them has the usual kernels, the smallest compact ones."""
    sets = sets_with_less_flash(graph, kernel_sets(graph, core)[0])
    needs = list(flash_and_cycles(graph, sets, core, None))
    assert all(a[0] < b[0] and a[1] > b[1] for a, b in pairwise(needs)) and len(needs) >= (3 if core else 1)
    compact = [variant_for(graph, op, also="compact").name for op in graph.ops]
    assert unfused_kernels(graph, sets[0][-1]) == tuple(compact)
    ((_, fewest),) = flash_and_cycles(graph, kernel_sets(graph, core)[:1], core, None)
    assert not core or needs[-1][1] == pytest.approx(fewest, rel=1e-3)


def test_a_network_with_a_single_kernel_has_one_set() -> None:
    for graph in (case.graph for case in cases("gather")):
        only = unfused_kernels(graph, KernelRule(CORE))
        if len(kernels_for(graph, graph.ops[0], CORE)) == 1:
            assert [unfused_kernels(graph, rule) for (rule,) in sets_with_less_flash(graph, kernel_sets(graph, CORE)[0])] == [
                only
            ]
            return
    pytest.fail("each gather has several kernels")


def test_code_counts_once_for_all_layers_that_share_it() -> None:
    """With one layer, the code of a fast kernel costs more Flash per cycle saved than with eight such layers."""
    prices = []
    for count in (1, 8):
        net = Net(8, 8, 16)
        last = "image"
        for _ in range(count):
            last = net.conv(last, 16, 1)
        graph = filled(net.finish("layers", last))
        needs = list(flash_and_cycles(graph, sets_with_less_flash(graph, kernel_sets(graph, CORE)[0]), CORE, None))
        prices.append(min((b[0] - a[0]) / (a[1] - b[1]) for a, b in pairwise(needs)))
    assert prices[1] < 0.5 * prices[0]


def test_kernel_sets_grow_by_cycles_saved_per_byte(graph: Graph):
    """The flash-heavy kernel of the first convolution has the fewest constants and saves most cycles."""
    sets = kernel_sets(graph, CORE)
    heavy = [{op for rule in each for op, name in rule.named if name == ROOMY} for each in sets]
    assert [len(names) for names in heavy] == [0, 1, 2, 3] and all(a < b for a, b in pairwise(heavy))
    more = [size for size, _ in flash_and_cycles(graph, sets, CORE, None)]
    assert [b - a for a, b in pairwise(more)] == sorted(b - a for a, b in pairwise(more))


def lean_names(graph: Graph, core: str) -> set[str]:
    """Return the names of ops that may have kernels without scratch."""
    return {op for kernels in kernel_sets(graph, core)[-1] for op, name in kernels.named if BY_NAME[name].lean}


def test_flash_waits_count_against_constants_that_exceed_the_cache(graph: Graph):
    usual = unfused_kernels(graph, KernelRule(CORE))
    held, largest = max((BY_NAME[name].flash(graph, op), op.name) for op, name in zip(graph.ops, usual, strict=True) if name)
    slow = FlashReads(waits=1000, line=16, cache=held, code_line=16, code_cache=1 << 20)
    heavy = [
        {op for rule in kernel_sets(graph, CORE, reads)[-1] for op, name in rule.named if name == ROOMY}
        for reads in (None, slow)
    ]
    assert largest in heavy[0] and largest not in heavy[1]


def test_cores_without_cycle_constants_have_no_lean_kernels(graph: Graph):
    assert not lean_names(graph, "cortex-m55") and lean_names(graph, "cortex-m33")


@pytest.mark.parametrize("core", ["cortex-m3", "rv32imc"])
def test_cores_without_dsp_have_lean_convolutions_with_less_scratch(graph: Graph, core: str):
    lean = [op for op in graph.ops if op.name in lean_names(graph, core)]
    assert {op.kind for op in lean} == {"conv_2d"}
    for op in lean:
        rows = [variant_for(graph, op, core, which) for which in ("lean", "")]
        few, many = (row.scratch(graph, op) for row in rows)
        assert 0 < few < many and rows[0].flash(graph, op) == rows[1].flash(graph, op)


@pytest.fixture(scope="module")
def large() -> Graph:
    """Return three convolutions with large maps and few weights, for which `balanced` chooses Winograd's kernel."""
    net = Net(32, 32, 16)
    return filled(net.finish("large", net.conv(net.conv(net.conv("image", 16, 3), 16, 3), 16, 3)))


@pytest.mark.parametrize(("ram", "flash", "is_tighter"), [(1 << 18, 1 << 16, True), (1 << 16, 1 << 20, False)])
def test_balanced_weighs_the_tighter_of_a_devices_ram_and_flash(large: Graph, ram: int, flash: int, is_tighter: bool):
    free, made = (
        plan(large, Request(limits=Limits(maps=({"sram": ram},)), core=CORE, flash_to_balance=each)) for each in (None, flash)
    )
    raw = emitted_bytes(plan(large, Request(objective="size")))
    assert emitted_bytes(free) > 1.43 * raw
    assert (emitted_bytes(made) < 1.1 * raw) if is_tighter else (to_json(made) == to_json(free))


def test_balanced_keeps_the_fastest_kernels_if_smaller_ones_hardly_pay(large: Graph, monkeypatch: pytest.MonkeyPatch):
    """The product of RAM, Flash and cycles must fall below SMALLER_SET_PAYS times that of the fastest kernels."""
    request = Request(limits=Limits(maps=({"sram": 1 << 18},)), core=CORE, flash_to_balance=1 << 16)
    fastest, smaller = plan(large, replace(request, flash_to_balance=None)), plan(large, request)
    least, product = (
        (constant_bytes(each.graph, each.variants) + likely_code(each))
        * cycles_to_compare(each, CORE)
        * sum(each.arena.values())
        for each in (fastest, smaller)
    )
    assert product < planner.SMALLER_SET_PAYS * least
    for share, expected in ((1.001, smaller), (0.999, fastest)):
        monkeypatch.setattr(planner, "SMALLER_SET_PAYS", share * product / least)
        assert to_json(plan(large, request)) == to_json(expected)


def test_a_device_with_room_gets_the_fastest_kernels() -> None:
    """Though its code takes a larger part of the device's Flash than its maps of the RAM, and slower kernels are smaller."""
    net = Net(16, 16, 3)
    graph = filled(net.finish("small", net.conv(net.depthwise(net.conv("image", 8, 3, stride=2), 3), 8)))
    limits = Limits(flash=1 << 20, maps=({"sram": 1 << 18},))
    made = plan(graph, Request(limits=limits, core=CORE, flash_to_balance=1 << 20))
    assert to_json(made) == to_json(plan(graph, Request(limits=replace(limits, flash=None), core=CORE)))


def test_a_looser_ram_limit_never_makes_balanced_weigh_flash(large: Graph):
    made = [plan(large, Request(limits=Limits(ram=ram, flash=1 << 16), core=CORE)) for ram in (None, 1 << 18, 1 << 16)]
    assert len({to_json(each) for each in made}) == 1


def test_more_flash_to_balance_never_gives_a_worse_plan(large: Graph):
    """The product of RAM and cycles falls as the Flash grows; there are two distinct plans."""
    limits = Limits(maps=({"sram": 1 << 17},))
    made = [plan(large, Request(limits=limits, core=CORE, flash_to_balance=1 << bits)) for bits in range(14, 24)]
    products = [sum(each.arena.values()) * cycles_to_compare(each, CORE) for each in made]
    assert products == sorted(products, reverse=True) and len(set(products)) == 2


def test_objective_flash_chooses_compact_kernels_and_the_least_code():
    net = Net(24, 24, 8)
    graph = filled(net.finish("maps", net.conv(net.depthwise(net.conv("image", 16, 3), 3), 8, 3)))
    roomy = plan(graph, Request(objective="flash", core=CORE))
    assert all(BY_NAME[name].compact for name in roomy.variants if name)
    reasons = [kernel_reason(roomy, index, CORE) for index, name in enumerate(roomy.variants) if name]
    used = {name for name in roomy.variants if name}
    for index, op in enumerate(graph.ops[:3]):
        fast, slow = variant_for(graph, op, CORE), BY_NAME[roomy.variants[index]]
        costs = {
            "scratch": fast.scratch(graph, op) - slow.scratch(graph, op),
            "constants in Flash": fast.flash(graph, op) - slow.flash(graph, op),
            "code": code_bytes({*used, fast.name}) - code_bytes(used),
        }
        assert costs["code"] > 1000 < 10 * costs["scratch"]
        more = [f"{'up to ' * (what == 'code')}{count:,} B more {what}" for what, count in costs.items() if count > 0]
        assert reasons[index] == f"{fast.name} is faster but needs {', '.join(more)}"
    assert all(stage.tiles is None for stage in roomy.stages) and len(roomy.graph.ops) == len(graph.ops)
    least = sum(plan(graph, Request(objective="size")).arena.values())
    for ram in range(sum(roomy.arena.values()), least, -1024):
        made = plan(graph, Request(objective="flash", limits=Limits(ram=ram), core=CORE))
        assert sum(made.arena.values()) <= ram
        assert constant_bytes(made.graph, made.variants) <= constant_bytes(roomy.graph, roomy.variants)


def test_objective_flash_keeps_a_latency_limit(graph: Graph):
    plans = [plan(graph, Request(objective=which, core=CORE)) for which in ("flash", "speed")]
    slow, fast = (cycles_to_compare(each, CORE) for each in plans)
    for share in (0.05, 0.3, 0.7):
        limit = fast + share * (slow - fast)
        limits = Limits(latency_ms=limit, clock_hz=1e3)
        made = plan(graph, Request(objective="flash", limits=limits, core=CORE))
        assert cycles_to_compare(made, CORE) <= limit * (1 + ROUNDING)
        assert constant_bytes(made.graph, made.variants) < constant_bytes(plans[1].graph, plans[1].variants)


@pytest.mark.emulator
def test_objective_flash_gives_the_smallest_linked_firmware(tmp_path: Path, emulator):
    model, flash = api.load(DIGITS), {}
    for objective in api.OPTIMIZE:
        folder = tmp_path / objective
        folder.mkdir()
        api.write(api.emit_c(model, api.plan(model, optimize=objective)), folder)
        sizes = emulated.build(folder, model.name, CORE).sizes
        flash[objective] = sizes["weights"] + sizes["tables"] + sizes["code"]
    assert flash["flash"] < 0.75 * flash["balanced"] and flash["flash"] < 0.95 * flash["size"]


@pytest.mark.emulator
def test_a_flash_limit_that_the_built_code_exceeds_is_met_with_smaller_kernels(tmp_path: Path, emulator):
    """The constants fit; only the build shows that the code does not."""
    model = api.load(DIGITS)
    limits = api.Limits(None, 50_000)
    assert api.estimate_flash(api.plan(model, optimize="balanced")).constants < 50_000
    request = api.Request(objective="balanced", limits=limits, core=CORE)
    done = api.deploy_model(model, tmp_path, request, proof=api.ProofOptions(count=1))
    assert done.fits and done.verification.ok and any(BY_NAME[name].cores == () for name in done.plan.variants if name)


@pytest.mark.emulator
def test_a_limit_below_the_least_flash_costs_one_build(tmp_path: Path, emulator, monkeypatch: pytest.MonkeyPatch):
    model, built, build = api.load(DIGITS), list[str](), target.build
    least = api.estimate_flash(api.plan(model, optimize="flash")).lower_bound
    monkeypatch.setattr(target, "build", lambda *where, **how: built.append(where[3]) or build(*where, **how))
    request = api.Request(objective="balanced", limits=api.Limits(None, least - 1), core=CORE)
    done = api.deploy_model(model, tmp_path, request, proof=api.ProofOptions(count=1))
    assert not done.fits and done.profile.flash >= least
    assert built == [CORE, target.HOST, CORE]  # the last one has a trace
