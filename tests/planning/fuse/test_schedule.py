"""The strategy `best` never needs a larger arena than `layer`, a smaller one if an order helps, and gives the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases.graphs import GRAPHS
from cases.sweeps import rest_in_sweeps
from cases.tiny import NETWORKS
from fuzz.generate import random_network

from tinyweave import api
from tinyweave.planning import Plan, Request, plan, to_json
from tinyweave.planning.place.relocation_ops import is_move


def steps(made: Plan) -> list[int]:
    return [index for stage in made.stages for index in stage.ops]


@pytest.mark.parametrize("seed", rest_in_sweeps(range(40), 12))
def test_best_is_never_worse_than_layer(seed: int) -> None:
    graph = random_network(seed, 16)
    layer, best = plan(graph, Request("layer")), plan(graph, Request("unfused"))
    assert plan(graph).arena["sram"] <= best.arena["sram"] <= layer.arena["sram"]
    if best.arena["sram"] == layer.arena["sram"]:
        assert steps(best) == sorted(steps(best)), "without a gain the file's order stays"


def test_another_order_saves_bytes_in_some_random_networks() -> None:
    networks = [random_network(seed, 14) for seed in range(20)]
    assert sum(plan(graph).arena["sram"] < plan(graph, Request("layer")).arena["sram"] for graph in networks) >= 3


@pytest.mark.parametrize("name", NETWORKS)
def test_chains_keep_their_order(name: str) -> None:
    made = plan(NETWORKS[name]())
    assert steps(made) == sorted(steps(made))


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "most"), [("nasnet_mobile", 0.85), ("darts_cifar", 0.7), ("randwire_1", 0.75)])
def test_the_best_strategy_saves_bytes_of_large_networks(name: str, most: float) -> None:
    graph = GRAPHS[name]()
    assert plan(graph).arena["sram"] < most * plan(graph, Request("layer")).arena["sram"]


@pytest.mark.shared
@pytest.mark.litert
@pytest.mark.emulator
@pytest.mark.parametrize(
    ("file", "arenas"),
    [("SiliconLabs__mltk__keyword_spotting_on_off_v3", (21_560, 13_840)), ("mlcommons__tiny__kws_ref_model", (16_000, 8_384))],
)
def test_a_real_model_with_moves_gives_the_bytes_of_litert(shared: Path, file: str, arenas: tuple[int, int]) -> None:
    model = api.load(shared / f"models/{file}.tflite")
    made = api.plan(model, schedule="unfused", optimize="size")
    assert (api.plan(model, schedule="layer", optimize="size").arena["sram"], made.arena["sram"]) == arenas
    assert made.optimal and any(map(is_move, made.graph.ops))
    result = api.verify_plan(model, made, api.ProofOptions(count=3))
    assert result.ok and result.reference.startswith("LiteRT's reference kernels"), result.first_difference
    assert {place: used["sram"] for place, used in result.touched.items()} == {"host": arenas[1], "cortex-m4": arenas[1]}


@pytest.mark.parametrize("seed", rest_in_sweeps(range(20), 6))
def test_the_fast_search_gives_sound_plans_not_smaller_than_the_exact_one(seed: int) -> None:
    graph = random_network(seed, 16)
    fast = plan(graph, Request(fast=True))
    assert fast.arena["sram"] <= plan(graph, Request("layer", fast=True)).arena["sram"]
    assert plan(graph).arena["sram"] <= fast.arena["sram"]
    assert to_json(fast) == to_json(plan(graph, Request(fast=True)))


def test_the_fast_search_saves_bytes_of_a_large_network() -> None:
    graph = GRAPHS["darts_cifar"]()
    assert plan(graph, Request(fast=True)).arena["sram"] < 0.85 * plan(graph, Request("layer", fast=True)).arena["sram"]
