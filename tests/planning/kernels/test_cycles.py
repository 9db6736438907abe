"""Cycles foreseen from shapes beside the estimates of an emulated run, on a network that the constants were not fitted to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cases.graphs import Net
from cases.sweeps import rest_in_sweeps

from tinyweave import api, results
from tinyweave.devices import find
from tinyweave.kernels.layer_cycles import BYTES_PER_CYCLE, RUN_BYTES, FlashReads, cut, layer_cycles
from tinyweave.kernels.table import BY_NAME, variant_for
from tinyweave.planning import Tile, plan_in_stages
from tinyweave.planning.fuse.schedule import plan_macs
from tinyweave.planning.kernels.cycles import plan_cycles

DIGITS = Path(__file__).parents[3] / "examples" / "keywords" / "digits.tflite"


@pytest.fixture(scope="module")
def model() -> results.Model:
    return api.load(DIGITS)


@pytest.mark.emulator
@pytest.mark.parametrize("schedule", rest_in_sweeps(["best", "unfused"], 1))
@pytest.mark.parametrize("core", api.FORESEEN)
def test_a_network_that_was_not_fitted_is_foreseen_within_15_percent(model: results.Model, core: str, schedule: str, emulator):
    plan = api.plan(model, schedule, optimize="speed", core=core)
    found = api.profile(model, plan, core).cycles
    foreseen = plan_cycles(plan, core).cycles
    assert found is not None and foreseen is not None
    assert foreseen == pytest.approx(found.likely, rel=0.15)


@pytest.mark.emulator
@pytest.mark.parametrize("schedule", ["unfused", "best"])
@pytest.mark.parametrize("name", ["stm32l4r5", "stm32l476"])
def test_what_the_flash_of_a_board_waits_is_foreseen(model: results.Model, name: str, schedule: str, emulator):
    board = find(name)
    limits, took = replace(api.limits_of(board), ram=None, maps=()), {}
    for reads in (None, limits.reads):
        plan = api.plan(model, schedule, replace(limits, reads=reads), optimize="speed", core=board.core)
        found = api.profile(model, plan, board.core, device=board).cycles
        foreseen, at_once = api.cycles_needed(plan, board), plan_cycles(plan, board.core).cycles
        assert found is not None and foreseen is not None and foreseen.cycles is not None and at_once is not None
        assert at_once < found.likely
        assert foreseen.cycles == pytest.approx(found.likely, rel=0.15)
        assert any(BY_NAME[name].copying for name in plan.variants if name) == (reads is not None)
        took[reads] = found.likely, at_once
    assert took[None][1] < 0.9 * took[None][0], "on these boards Flash weighs"
    assert took[limits.reads][0] < 0.95 * took[None][0], "and less where it is read once"


def test_a_cache_that_is_too_small_waits_for_each_line_again():
    reads = FlashReads(waits=5, line=16, cache=256, code_line=8, code_cache=1024)
    assert reads.of_constants(256, 10, alone=True) == 256 / 16 * 5
    assert reads.of_constants(256, 10, alone=False) == 0, "from the call before"
    assert reads.of_constants(272, 10, alone=False) == 10 * 272 / 16 * 5
    assert reads.of_code(1e6, 3) == 3 * RUN_BYTES / 8 * 5
    assert reads._replace(code_cache=2048).of_code(1e6, 3) == 0
    assert reads._replace(code_cache=64).of_code(1e6, 3) == 1e6 * BYTES_PER_CYCLE / 8 * 5
    assert reads.of_code(1e6, 3, 1600) == 1e6 * BYTES_PER_CYCLE / 8 * 5, "its loop does not fit"
    assert reads._replace(code_cache=2048).of_code(1e6, 3, 1600) == 0


def test_a_kernel_waits_for_its_weights_as_often_as_it_reads_them(model: results.Model):
    op = next(op for op in model.graph.ops if op.kind == "conv_2d")
    row, (_, height, width, _) = variant_for(model.graph, op, "cortex-m4"), model.graph.output(op).shape
    passes = -(-height * width // 2)  # two pixels at a time
    large = FlashReads(waits=5, line=16, cache=1 << 20, code_line=16, code_cache=1 << 20)
    small = large._replace(cache=1, code_cache=1024)

    def waited(reads: FlashReads, part: tuple[int, int] | None = None) -> float:
        with_waits, without = (layer_cycles(model.graph, op, row.name, "cortex-m4", part, reads=r) for r in (reads, None))
        assert with_waits is not None and without is not None
        return with_waits - without

    once, code = row.flash(model.graph, op) / 16 * 5, RUN_BYTES / 16 * 5
    assert row.isa == "dsp" and waited(large) == pytest.approx(once) and waited(large, (1, width)) == 0
    assert waited(small) == pytest.approx(passes * once + (1 + passes) * code)
    portable = variant_for(model.graph, op)
    assert portable.stream is None
    with_waits, without = (layer_cycles(model.graph, op, portable.name, "cortex-m4", reads=r) for r in (small, None))
    assert with_waits - without == pytest.approx(height * width * portable.flash(model.graph, op) / 16 * 5 + code)


def test_what_flash_waits_is_part_of_what_plans_are_compared_by(model: results.Model):
    board = find("stm32l4r5")
    free = replace(api.limits_of(board), ram=None, maps=())
    slow = replace(free, reads=FlashReads(waits=100, line=16, cache=0, code_line=16, code_cache=1 << 20))
    plans = [api.plan(model, "unfused", limits, optimize="speed", core=board.core) for limits in (free, slow)]
    at_once, waiting = ([plan_cycles(plan, board.core, reads).cycles for plan in plans] for reads in (None, slow.reads))
    assert waiting[1] < waiting[0] and at_once[1] > at_once[0], "it has other kernels, which read fewer constants"
    assert api.cycles_needed(plans[0], board) == plan_cycles(plans[0], board.core, api.flash_reads(board))
    by_layer, whole = api.layer_cycles_needed(plans[0], board), api.cycles_needed(plans[0], board)
    assert whole is not None and sum(by_layer.values()) == pytest.approx(whole.cycles, abs=len(by_layer))
    assert api.flash_reads(find("nrf52840")) is None, "its file says nothing of waits"
    unified = find("stm32u575")
    (cache,) = unified.caches
    assert api.flash_reads(unified) == (unified.flash_waits, cache.line, cache.bytes, cache.line, cache.bytes)


@pytest.mark.emulator
@pytest.mark.parametrize("cols", [2, 8])
def test_work_that_is_done_again_and_what_each_call_costs_are_counted(model: results.Model, cols: int, emulator):
    ops = range(len(model.graph.ops))
    stages = [*((index,) for index in ops[:2]), (2, 3, 4), *((index,) for index in ops[5:])]
    alone, tiled = (plan_in_stages(model.graph, stages, tiles=tiles) for tiles in ((), (Tile((2, 3, 4), cols),)))
    counts = [plan_cycles(plan, "cortex-m4").cycles for plan in (alone, tiled)]
    first = layer_cycles(model.graph, model.graph.ops[2], alone.variants[2], "cortex-m4")
    again = plan_macs(tiled)[2] / plan_macs(alone)[2] - 1
    assert counts[0] is not None and counts[1] is not None and first is not None
    assert again > 0.4 and counts[1] - counts[0] > first * again
    found = api.profile(model, tiled, "cortex-m4").cycles
    assert found is not None and counts[1] == pytest.approx(found.likely, rel=0.15)


def test_layers_without_constants_are_named_and_the_others_counted(model: results.Model):
    plan = api.plan(model, "unfused", optimize="size")
    whole = plan_cycles(plan, "cortex-m4")
    assert whole == (whole.cycles, ()) and whole.cycles is not None
    nothing = plan_cycles(plan, "xtensa-lx7")
    assert nothing.cycles is nothing.at_least is None
    assert set(nothing.missing) == {op.kind for op in model.graph.ops}
    last = len(plan.variants) - 1
    without = plan_cycles(replace(plan, variants=(*plan.variants[:last], "tw_cast")), "cortex-m4")
    assert without.cycles is None and without.missing == (model.graph.ops[last].kind,)
    alone = layer_cycles(model.graph, model.graph.ops[last], plan.variants[last], "cortex-m4")
    assert alone is not None and whole.cycles - without.at_least in (int(alone), int(alone) + 1), "sums are rounded"
    assert layer_cycles(model.graph, model.graph.ops[0], "", "cortex-m4") == 0.0


def test_a_part_is_that_of_an_op_on_a_smaller_map_without_padding_along_what_is_cut() -> None:
    net = Net(12, 10, 3)
    graph = net.finish("part", net.depthwise("image", 3))
    smaller, op = cut(graph, graph.ops[0], (1, 10))
    assert smaller.input(op).shape == (1, 3, 10, 3) and smaller.output(op).shape == (1, 1, 10, 3)
    assert op.attrs["padding"] == ((0, 0), (1, 1))
    assert cut(graph, graph.ops[0], (12, 10)) == cut(graph, graph.ops[0], None) == (graph, graph.ops[0])
