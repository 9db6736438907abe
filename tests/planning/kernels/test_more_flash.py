"""A larger Flash limit never worsens the objective; the Flash of the unlimited plan as the limit gives that plan."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest
from cases.sweeps import rest_in_sweeps
from fuzz.generate import BY_ROW, random_network

from tinyweave import api
from tinyweave.ir import Graph
from tinyweave.planning import (
    Limits,
    Objective,
    OtherFlash,
    Plan,
    PlanSearch,
    Request,
    constant_bytes,
    plan,
    to_json,
    trades_flash,
)
from tinyweave.planning.kernels.cycles import cycles_to_compare, kernel_calls

CORE = "cortex-m4"
STEPS = 9  # limits between the least and the most Flash
MODELS = (
    "mlcommons__tiny__pretrainedResnet_quant",
    "MohamedElhadidy0019__stm32ai-modelzoo__st_mnist_v1_28_tfs_int8",
    "MohamedElhadidy0019__stm32ai-modelzoo__miniresnetv2_1stacks_64x50_tl_int8",
    "MohamedElhadidy0019__stm32ai-modelzoo__miniresnet_2stacks_64x50_tl_int8",
    "MohamedElhadidy0019__stm32ai-modelzoo__resnet_v1_8_32_tfs_int8",
)


def size(made: Plan) -> int:
    return sum(made.arena.values())


def constants(made: Plan) -> int:
    return constant_bytes(made.graph, made.variants)


def quantity(made: Plan, objective: Objective) -> float:
    """Return the value of the objective for a plan."""
    return cycles_to_compare(made, CORE) * (size(made) if objective == "balanced" else 1)


def rounding(made: Plan, objective: Objective) -> float:
    """Return the difference to the search's value, which rounds the cycles of each call."""
    return sum(count for _, _, count in kernel_calls(made)) / 2 * (size(made) if objective == "balanced" else 1)


def assert_more_flash_never_worsens(graph: Graph) -> None:
    """Check each objective without RAM limit, and the fastest plan in little RAM, at increasing Flash limits."""
    search = PlanSearch(graph, Request(limits=Limits(flash=0), core=CORE, other_flash=(OtherFlash(0),)))
    tight = round(1.05 * size(search.plan("size", checked=False)))
    search.flash_limit = None
    cases: list[tuple[Objective, int | None]] = [("speed", None), ("balanced", None), ("speed", tight)]
    for objective, ram in cases:
        free = search.plan(objective, Limits(ram=ram), checked=False)
        least = max(constants(plan(graph, each)) for each in (Request(fast=True), Request(objective="flash", core=CORE)))
        most = constants(free)
        limits = sorted({0, 2 * most, *(least + (most - least) * step // (STEPS - 1) for step in range(STEPS)), most, most - 1})
        plans, text = list[Plan](), to_json(free)
        for limit in limits:
            search.flash_limit = limit
            made = search.plan(objective, Limits(ram=ram), checked=False)
            plans.append(made)
            assert limit < least or constants(made) <= limit
            assert (to_json(made) == text) or limit < most
        search.flash_limit = None
        fits = [made for made in plans if ram is None or size(made) <= ram]
        values = [(quantity(made, objective), rounding(made, objective)) for made in fits]
        assert values and all(b - error <= a + slack for (a, slack), (b, error) in pairwise(values)), (objective, ram, values)


@pytest.mark.parametrize("seed", rest_in_sweeps(range(16), 4))
def test_more_flash_never_worsens_the_objective(seed: int) -> None:
    assert_more_flash_never_worsens(random_network(seed, random.Random(seed).randint(4, 12), growers=BY_ROW, live=2))


@pytest.mark.shared
@pytest.mark.parametrize("name", rest_in_sweeps(MODELS, 2))
def test_more_flash_never_worsens_the_objective_of_real_networks(name: str, shared: Path) -> None:
    graph = api.load(shared / "models" / f"{name}.tflite", io="int8").graph
    assert trades_flash(graph, CORE)
    assert_more_flash_never_worsens(graph)
