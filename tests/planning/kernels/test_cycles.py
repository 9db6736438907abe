"""Cycles foreseen from shapes beside the estimates of an emulated run, on a network that the constants were not fitted to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tinyweave import api, results
from tinyweave.kernels.layer_cycles import layer_cycles
from tinyweave.planning import Tile, plan_in_stages
from tinyweave.planning.fuse.schedule import plan_macs
from tinyweave.planning.kernels.cycles import plan_cycles
from tinyweave.simulate.instruction_timing import TIMINGS

DIGITS = Path(__file__).parents[3] / "examples" / "keywords" / "digits.tflite"


@pytest.fixture(scope="module")
def model() -> results.Model:
    return api.load(DIGITS)


@pytest.mark.emulator
@pytest.mark.parametrize("schedule", ["unfused", "best"])
@pytest.mark.parametrize("core", TIMINGS)
def test_a_network_that_was_not_fitted_is_foreseen_within_15_percent(model: results.Model, core: str, schedule: str, emulator):
    plan = api.plan(model, schedule, optimize="speed", core=core)
    found = api.profile(model, plan, core).cycles
    foreseen = plan_cycles(plan, core).cycles
    assert found is not None and foreseen is not None
    assert foreseen == pytest.approx(found.likely, rel=0.15)


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
