"""The stored figures of the explorer's page equal plans that are made anew."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cases.mobile import RIGHT

import tinylesson as explorer
from tinylesson.networks import RUNGS, graph_of, two_scales
from tinylesson.planned import COMPARED, LADDER_SCHEDULES, SCHEDULES, profile, rung, scales
from tinynas.costs import model_of
from tinyweave import api
from tinyweave.codegen import constant_bytes
from tinyweave.planning.alias.overlap import views
from tinyweave.planning.order.order_search import file_order, live_bytes

STORED = json.loads((Path(explorer.__file__).parent / "planned.json").read_text())
SMALL = next(index for index, each in enumerate(COMPARED) if each[1:4] == ("mobilenet_v2", 144, 0.35))


def check_rung(number: int) -> None:
    """Compare the stored figures of a network of the ladder with the planner, and with the published figures."""
    each, found = RUNGS[number], rung(RUNGS[number])
    assert found == STORED["ladder"][number]
    model = model_of(graph_of(each.network, each.resolution, each.width))
    layer, *best = found["arenas"].values()
    options = {"objective": "size", "core": "cortex-m7", "limits": api.Limits(0)}
    plans = [api.make_plan(model, api.Request(stream_inputs=stream, **options)) for stream in (False, True)]
    assert best == [sum(made.arena.values()) for made in plans] and found["constants"] == constant_bytes(plans[1])
    assert layer == max(live_bytes(model.graph, file_order(model.graph), views(model.graph)))
    right = RIGHT[each.title]
    assert found["constants"] > right[1] and (right[3] is None or layer == right[3])
    assert layer >= right[2] > best[0] >= best[1]


def test_stored_figures_of_a_ladder_network_equal_the_planner() -> None:
    check_rung(4)


@pytest.mark.sweep
@pytest.mark.parametrize("number", range(4), ids=lambda number: RUNGS[number].title)
def test_stored_figures_of_every_ladder_network_equal_the_planner(number: int) -> None:
    check_rung(number)


def check_profile(number: int) -> None:
    """Compare the stored RAM per block of a network with plans, and its maximum with their arenas."""
    each = COMPARED[number]
    found = profile(each)
    assert found == STORED["profiles"][number]
    model = model_of(graph_of(each.network, each.resolution, each.width))
    arena = sum(api.make_plan(model, SCHEDULES["rows"]).arena.values())
    assert max(found["rows"]) == arena, "the peak lies in a block, not in the classifier"


def test_stored_ram_per_block_equals_the_planner() -> None:
    check_profile(SMALL)


@pytest.mark.sweep
@pytest.mark.parametrize("number", range(len(COMPARED)), ids=lambda number: "-".join(map(str, COMPARED[number][1:4])))
def test_stored_ram_per_block_of_every_network_equals_the_planner(number: int) -> None:
    check_profile(number)


def test_the_detector_has_two_heads_on_two_maps() -> None:
    fine, coarse, heads = two_scales(160, 0.35)
    assert (fine[-1].layers[-1].h_out, coarse[-1].layers[-1].h_out) == (10, 5)
    graph = graph_of("two_scales", 160, 0.35)
    assert [graph.tensors[name].shape for name in graph.outputs] == [(1, 5, 5, 18), (1, 10, 10, 18)]
    assert heads[2].c_in == 2 * fine[-1].layers[-1].c_out
    stored = STORED["scales"]
    assert json.loads(json.dumps(scales())) == stored and tuple(stored) == LADDER_SCHEDULES
    for record in stored.values():
        (buffer,) = (each for each in record["buffers"] if each["label"] == record["fine"])
        assert buffer["shapes"] == ["10x10x32"] and buffer["end"] - buffer["begin"] > 15, "it waits for the coarse map"
