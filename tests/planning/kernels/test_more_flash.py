"""More Flash for constants never costs what a plan is chosen by: kernels that keep more of them are taken where they pay."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest
from cases.sweeps import rest_in_sweeps
from fuzz.generate import BY_ROW, random_network

from tinyweave import api
from tinyweave.ir import Graph
from tinyweave.planning import Plan, constant_bytes, plan, trades_flash
from tinyweave.planning.kernels.cycles import cycles_to_compare

CORE = "cortex-m4"
EVERY_OP = 100  # cycles; each op may round them
PARTS = 5
MODELS = (
    "mlcommons__tiny__pretrainedResnet_quant",
    "MohamedElhadidy0019__stm32ai-modelzoo__miniresnetv2_1stacks_64x50_tl_int8",
    "MohamedElhadidy0019__stm32ai-modelzoo__st_mnist_v1_28_tfs_int8",
    "MohamedElhadidy0019__stm32ai-modelzoo__miniresnet_2stacks_64x50_tl_int8",
    "MohamedElhadidy0019__stm32ai-modelzoo__resnet_v1_8_32_tfs_int8",
)


def cycles(made: Plan) -> float:
    return cycles_to_compare(made, CORE)


def size(made: Plan) -> int:
    return sum(made.arena.values())


def constants(made: Plan) -> int:
    return constant_bytes(made.graph, made.variants)


def never_costs(graph: Graph) -> bool:
    """Check each aim, with room in RAM and with little; return whether Flash decides anything."""
    least, most = constants(plan(graph)), constants(plan(graph, core=CORE, aim="speed"))
    tight = round(1.05 * size(plan(graph, core=CORE, aim="size")))
    for aim, ram in (("speed", None), ("speed", tight), ("balanced", None)):
        values = []
        for part in range(PARTS):
            flash = least + (most - least) * part // (PARTS - 1)
            made = plan(graph, core=CORE, aim=aim, ram_limit=ram, flash=flash, other_flash=0)
            assert constants(made) <= flash
            values.append(cycles(made) * (size(made) if aim == "balanced" else 1))
        values.append(cycles(made := plan(graph, core=CORE, aim=aim, ram_limit=ram)) * (size(made) if aim == "balanced" else 1))
        assert all(after <= before * 1.0001 + EVERY_OP for before, after in pairwise(values)), (aim, ram, values)
    return most > least


@pytest.mark.parametrize("seed", rest_in_sweeps(range(12), 4))
def test_more_flash_never_costs(seed: int) -> None:
    never_costs(random_network(seed, random.Random(seed).randint(4, 12), growers=BY_ROW, live=2))


@pytest.mark.shared
@pytest.mark.parametrize("name", rest_in_sweeps(MODELS, 2))
def test_more_flash_never_costs_real_networks(name: str, shared: Path) -> None:
    graph = api.load(shared / "models" / f"{name}.tflite", "int8").graph
    assert trades_flash(graph, CORE) and never_costs(graph)
