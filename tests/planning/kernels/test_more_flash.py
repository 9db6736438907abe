"""More Flash never costs what a plan is chosen by, and as much as the plan without a limit takes gives that plan."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest
from cases.sweeps import rest_in_sweeps
from fuzz.generate import BY_ROW, random_network

from tinyweave import api
from tinyweave.ir import CompileError, Graph
from tinyweave.ops import macs
from tinyweave.planning import Aim, Choices, OtherFlash, Plan, constant_bytes, plan, to_json, trades_flash
from tinyweave.planning.kernels.cycles import cycles_to_compare, kernel_calls
from tinyweave.planning.kernels.flash_budget import FlashLimit, kernel_ladder

CORE = "cortex-m4"
PARTS = 9
LARGE, MANY_MACS = 100_000, 3_000_000  # bytes of a file, and multiply-accumulates, of models that the sweep leaves out
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


def quantity(made: Plan, aim: Aim) -> float:
    """Return what a plan is chosen by."""
    return cycles_to_compare(made, CORE) * (size(made) if aim == "balanced" else 1)


def rounding(made: Plan, aim: Aim) -> float:
    """Return by how much that may differ from what the search counts, which takes whole cycles of each call."""
    return sum(count for _, _, count in kernel_calls(made)) / 2 * (size(made) if aim == "balanced" else 1)


def never_costs(graph: Graph, aims: tuple[Aim, ...] = ("speed", "balanced")) -> None:
    """Check each aim, with room in RAM, and the fastest plan with little, at limits of Flash from much too tight to loose."""
    choices = Choices(graph, core=CORE, flash=0, other_flash=OtherFlash(0))
    tight = round(1.05 * size(choices.plan("size", checked=False)))
    choices.flash = None
    for aim, ram in [*((aim, None) for aim in aims), ("speed", tight)]:
        free = choices.plan(aim, ram_limit=ram, checked=False)
        least, most = constants(plan(graph, fast=True)), constants(free)
        limits = sorted({0, 2 * most, *(least + (most - least) * part // (PARTS - 1) for part in range(PARTS)), most, most - 1})
        plans, text = list[Plan](), to_json(free)
        for limit in limits:
            choices.flash = FlashLimit(limit, OtherFlash(0))
            made = choices.plan(aim, ram_limit=ram, checked=False)
            plans.append(made)
            assert limit < least or constants(made) <= limit
            assert (to_json(made) == text) or limit < most
        choices.flash = None
        fits = [made for made in plans if ram is None or size(made) <= ram]
        values = [(quantity(made, aim), rounding(made, aim)) for made in fits]
        assert values and all(b - error <= a + slack for (a, slack), (b, error) in pairwise(values)), (aim, ram, values)


@pytest.mark.parametrize("seed", rest_in_sweeps(range(16), 4))
def test_more_flash_never_costs(seed: int) -> None:
    never_costs(random_network(seed, random.Random(seed).randint(4, 12), growers=BY_ROW, live=2))


@pytest.mark.shared
@pytest.mark.parametrize("name", rest_in_sweeps(MODELS, 2))
def test_more_flash_never_costs_real_networks(name: str, shared: Path) -> None:
    graph = api.load(shared / "models" / f"{name}.tflite", "int8").graph
    assert trades_flash(graph, CORE)
    never_costs(graph)


@pytest.mark.sweep
@pytest.mark.shared
def test_more_flash_never_costs_all_small_models(shared: Path) -> None:
    seen = 0
    for path in sorted((shared / "models").glob("*.tflite")):
        if path.stat().st_size > LARGE:
            continue
        try:
            graph = api.load(path, "int8").graph
            many = len(kernel_ladder(graph, CORE)) > 1
        except CompileError:
            continue
        if many and macs(graph) < MANY_MACS:
            never_costs(graph, ("speed",))
            seen += 1
    assert seen > 10
