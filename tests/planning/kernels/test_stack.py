"""The estimated stack of a plan is near the measured one, and the objective `size` counts it."""

from __future__ import annotations

from functools import cache

import pytest
from cases.tiny import NETWORKS
from fuzz.generate import random_network

from tinynas.costs import model_of
from tinyweave import api
from tinyweave.api.results import Model
from tinyweave.kernels.layer_cycles import cost_model_core
from tinyweave.kernels.table import FILES, VARIANTS, stack_of_kernels
from tinyweave.planning import Limits, Plan, Request
from tinyweave.planning.kernels.flash_budget import kernel_sets
from tinyweave.planning.kernels.stack import FRAME, least_stack, stack_bytes
from tinyweave.simulate.cores import CORES

CORE = "cortex-m4"
ERROR = 130  # bytes; most of it is the frame of fused stages


@cache
def model(name: str | int) -> Model:
    return model_of(random_network(name, 10) if isinstance(name, int) else NETWORKS[name]())


def plan(name: str | int, optimize: str) -> Plan:
    return api.plan(model(name), CORE, optimize=optimize)


def total(made: Plan) -> int:
    return sum(made.arena.values()) + stack_bytes(made, CORE)


def test_each_kernel_of_a_core_has_its_stack() -> None:
    for core in sorted({cost_model_core(core) for core in CORES}):
        known = stack_of_kernels(core)
        own = [row for row in VARIANTS if f"{row.name}.c" in FILES and (not row.cores or core in row.cores)]
        missing = [row.name for row in own if row.name not in known]
        assert not missing, f"{core}: run bench/planning/stack_bytes.py"
        assert len(known[FRAME]) == 4 and all(len(sizes) == 2 for name, sizes in known.items() if name != FRAME)


@pytest.mark.emulator
@pytest.mark.parametrize("name", ["chain", "residual", 1])
@pytest.mark.parametrize("optimize", ["size", "balanced"])
def test_the_estimate_is_near_the_measured_stack(name: str | int, optimize: str, emulator: None) -> None:
    made = plan(name, optimize)
    measured = api.profile_plan(model(name), made, CORE, by_step=False).stack
    assert abs(stack_bytes(made, CORE) - measured) <= ERROR


@pytest.mark.parametrize("name", [*NETWORKS, *range(4)])
def test_the_objective_size_has_the_least_arena_and_stack_of_all(name: str | int) -> None:
    least = total(plan(name, "size"))
    assert all(least <= total(plan(name, optimize)) for optimize in ("balanced", "speed"))
    sets = kernel_sets(model(name).graph, CORE)[-1]
    assert all(least_stack(model(name).graph, sets, CORE) <= stack_bytes(plan(name, each), CORE) for each in ("size", "speed"))
    assert stack_bytes(plan(name, "size"), "") == least_stack(model(name).graph, sets, "") == 0


def test_fused_stages_are_left_out_if_their_loop_takes_more_stack_than_they_save(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {**stack_of_kernels(CORE), FRAME: (40, 200, 40, 20)}
    monkeypatch.setattr("tinyweave.planning.kernels.stack.stack_of_kernels", lambda core: known)
    whole = api.plan(model("residual"), CORE, optimize="size")
    assert all(stage.schedule is None for stage in whole.stages)
    fused = api.make_plan(model("residual"), Request(objective="size", limits=Limits(0), core=CORE))
    assert any(stage.schedule for stage in fused.stages)
    arenas = sum(fused.arena.values()), sum(whole.arena.values())
    assert arenas[0] < arenas[1] and total(whole) < total(fused)
    within = api.plan(model("residual"), CORE, optimize="size", ram=arenas[1] - 1)
    assert within.arena == fused.arena, "only the fused plan is within the limit"
