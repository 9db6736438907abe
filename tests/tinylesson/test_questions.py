"""The explorer's answers equal the planner's results, and its questions are checked."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from cases import browser
from cases.mobile import RIGHT

import tinylesson as explorer
from tinylesson import questions
from tinylesson.networks import PRESETS, RUNGS, Preset, graph_of
from tinylesson.questions import by_formula, exact, fast, question
from tinynas.arch import blocks, macs, weights
from tinynas.costs import model_of
from tinynas.network import to_graph
from tinynas.space import MOBILE, arch_of, sample
from tinynas.stage_one import layer_bytes
from tinyweave import api
from tinyweave.devices import find
from tinyweave.ir import CompileError
from tinyweave.ops import macs_original
from tinyweave.planning import Limits, Request, plan

ASKED = browser.ASKED | {"network": "mobilenet_v2", "resolution": 48, "width": 0.35}
MAP = json.loads((Path(explorer.__file__).parent / "map.json").read_text())


# each strategy with two networks, each network twice, each value of other controls with each strategy that has it
QUESTIONS = [
    ("best", "tinynas", 0.35, False, 1.0, 64, "stm32f746"), ("best", "five_layers", 0.5, True, 1.1, 16, "nrf52840"),
    ("layer", "mobilenet_v2", 0.35, True, 1.1, 64, "nrf52840"), ("layer", "proxyless", 0.2, False, 1.0, 8, "stm32f412"),
    ("patch", "mnasnet", 0.2, False, 1.1, 16, "stm32f412"), ("patch", "mobilenet_v2", 0.2, True, 1.0, 16, "nrf52840"),
    ("msf", "five_layers", 0.5, False, 1.1, 8, "stm32f746"), ("msf", "mnasnet", 0.2, True, 1.0, 64, "stm32f412"),
    ("best", "mcunet_320kb", 0.35, True, 1.0, 16, "stm32f412"), ("best", "resnet18", 0.1, False, 1.0, 16, "stm32f746"),
]  # fmt: skip
KNOBS = ("schedule", "network", "width", "stream", "overhead", "ram", "device")


@pytest.mark.parametrize("values", QUESTIONS, ids=lambda values: f"{values[0]}-{values[1]}")
def test_an_answer_equals_the_plan_of_the_planner(values: tuple[Any, ...]) -> None:
    value = dict(zip(KNOBS, values, strict=True))
    grid = 2 if value["network"] == "mnasnet" else 0
    optimize = "speed" if value["overhead"] > 1 else "size"
    check_answer(value | {"ram": value["ram"] << 10, "resolution": 32, "grid": grid, "optimize": optimize})


def check_answer(value: dict[str, Any]) -> None:
    """Compare an answer with the plans of `api.plan` for the same options."""
    asked = question(value)
    try:
        answer = exact(asked)
    except CompileError:  # the network has no plan with this strategy
        answer = None
    model = model_of(graph_of(value["network"], value["resolution"], value["width"]))
    board = find(value["device"])
    core = board.core
    options: dict[str, Any] = {"strategy": asked.schedule, "objective": asked.optimize, "core": core}
    if value["schedule"] in ("best", "msf"):
        options["max_mac_overhead"] = value["overhead"]
    if value["schedule"] != "layer":
        options["stream_inputs"] = value["stream"]
    request = api.Request(limits=Limits(value["ram"], reads=api.flash_reads(board)), **options)
    if answer is None:
        with pytest.raises(CompileError):
            api.make_plan(model, request)
        return
    right = api.make_plan(model, request)
    record = answer["entry"]["record"]
    assert record["ram"]["arena"] == sum(right.arena.values()) and record["plan"]["steps"] == len(right.stages)
    assert {each["name"]: each["offset"] for each in record["buffers"]} == right.offsets
    least = api.make_plan(model, api.Request(**options | {"objective": "size", "limits": Limits(0)}))
    assert answer["least"] == sum(least.arena.values())
    by_layer = api.plan(model, core, schedule="layer")
    assert max(answer["layer"].values()) == max(by_layer.live(step) for step in range(len(by_layer.stages)))
    known = fast(asked)
    assert known and (known["arena"] is None) == value["network"].startswith(("resnet", "two_scales"))
    if known["arena"] and value["schedule"] == "best" and value["overhead"] == 1.0:
        assert known["arena"] == plan(model.graph, Request(stream_inputs=value["stream"])).lower_bound


def test_the_front_equals_that_of_the_planner() -> None:
    asked = question(ASKED | {"stream": True, "overhead": 1.1})
    found = questions.front(asked)["front"]
    model = model_of(graph_of("mobilenet_v2", 48, 0.35))
    limits = Limits(reads=api.flash_reads(find("stm32f746")))
    request = api.Request(limits=limits, core="cortex-m7", stream_inputs=True, max_mac_overhead=1.1)
    right = api.front(model, request)
    assert [point["arena"] for point in found["points"]] == [sum(each.arena.values()) for each in right]


@pytest.mark.parametrize(
    "change",
    [
        {"network": "no such"}, {"network": 3}, {"network": "../x"},
        {"resolution": 16}, {"resolution": 4096}, {"resolution": "96"}, {"resolution": True}, {"resolution": 10**400},
        {"width": 0}, {"width": float("nan")}, {"width": float("inf")}, {"width": True}, {"width": 1.51}, {"overhead": 2.01},
        {"schedule": "patch:9:9"}, {"schedule": None}, {"schedule": []},
        {"grid": 1}, {"grid": "2"}, {"grid": [2]}, {"grid": 2.0}, {"grid": False}, {"stream": 1},
        {"overhead": 0.5}, {"overhead": 1e9}, {"ram": 0}, {"ram": 1 << 40},
        {"device": "moon"}, {"device": "/etc/x.toml"}, {"device": None}, {"optimize": "flash"}, {"optimize": []}, {"more": 1},
    ],
)  # fmt: skip
def test_values_out_of_range_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(CompileError):
        question(ASKED | change)


def test_questions_with_missing_keys_or_of_another_type_are_refused() -> None:
    for value in ([], None, 3, "x", {}, {key: ASKED[key] for key in list(ASKED)[1:]}):
        with pytest.raises(CompileError):
            question(value)
    assert (
        question(ASKED).network == "mobilenet_v2" and question(ASKED | {"schedule": "patch", "grid": 3}).schedule == "patch:3"
    )
    assert question(ASKED | {"network": "a" * 64}, frozenset({"a" * 64})).network == "a" * 64


def asked_by(preset: Preset) -> dict[str, Any]:
    """Return the question of a preset."""
    changes = {key: value for key, value in preset._asdict().items() if key in ASKED}
    return ASKED | changes | {"ram": preset.ram << 10}


def test_the_preset_with_patches_shows_the_result_of_the_lecture() -> None:
    """Layer by layer the peak exceeds the RAM, with 2 x 2 patches it does not."""
    asked = asked_by(next(each for each in PRESETS if each.schedule == "patch"))
    by_patches, alone = (exact(question(asked | changes)) for changes in ({}, {"schedule": "layer", "grid": 0}))
    assert by_patches["least"] <= asked["ram"] < alone["least"]
    fits = [each["entry"]["record"]["fits"] for each in (by_patches, alone)]
    assert fits == [True, False]


def test_networks_of_the_ladder_have_the_published_figures() -> None:
    assert [each.title for each in RUNGS] == list(RIGHT)
    for each in RUNGS:
        macs, weights, layer, _ = RIGHT[each.title]
        assert by_formula(each.network, each.resolution, each.width) == {"layer": layer, "macs": macs, "weights": weights}
    assert by_formula("resnet18", 96, 0.5)["macs"] == macs_original(graph_of("resnet18", 96, 0.5)), "the graph is of the layers"


@pytest.mark.parametrize("seed", range(4))
def test_networks_of_the_map_equal_the_planner(seed: int) -> None:
    """Compare random networks of the table with the planner and the count of the thesis."""
    rng = random.Random(seed)
    side, width, number = rng.choice(MAP["sizes"]), rng.choice(MAP["widths"]), rng.randrange(MAP["count"])
    rng = random.Random(f"{MAP['seed']} {side} {width}")
    arch = [arch_of(MOBILE, sample(MOBILE, rng, (side, side), width), 1000) for _ in range(number + 1)][-1]
    graph = to_graph("network", blocks(arch), arch.classes)
    bounds = [plan(model_of(graph).graph, Request(stream_inputs=stream)).lower_bound for stream in (False, True)]
    assert MAP["networks"][f"{side} {width:g}"][number] == [layer_bytes(arch), *bounds, weights(arch), macs(arch)]
