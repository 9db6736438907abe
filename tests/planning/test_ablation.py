"""Ablation: a network computed by hand; each technique never costs bytes."""

from __future__ import annotations

import numpy as np
import pytest
from cases.graphs import Net
from cases.maps import block
from cases.sweeps import rest_in_sweeps
from fuzz.generate import random_network

from tinyweave.ir import Graph, Tensor, verify
from tinyweave.planning import Limits, Request, plan, plan_in_order
from tinyweave.planning.ablation import ablation
from tinyweave.planning.alias.overlap import ANY_DISTANCE
from tinyweave.planning.order.order_search import file_order, live_bytes, without_views


def one_saving_each() -> Graph:
    """Return a network with 8x8 maps, 64 bytes per channel."""
    net = Net(8, 8, 4)
    wide = [net.conv("image", 16), net.conv("image", 16)]  # worst: image, wide[0] and wide[1] together
    joined = net.join([net.conv(x, 1) for x in wide])
    mixed = net.conv(joined, 13)
    net.tensors["shape"] = Tensor("shape", (4,), "int32", None, np.array([1, 8, 8, 13], np.int32), "constant")
    flat = net.op("reshape", (mixed, "shape"), (1, 8, 8, 13), new_shape=(1, 8, 8, 13))
    last = net.op("logistic", (net.conv(net.conv(flat, 4), 12),), (1, 8, 8, 12))
    return verify(Graph("one_saving_each", net.tensors, tuple(net.ops), ("image",), (last,)))


def test_each_technique_saves_the_bytes_computed_by_hand() -> None:
    assert ablation(one_saving_each()) == {
        "file order": (4 + 16 + 16) * 64,
        "best order": (13 + 13) * 64,  # reshape is a copy without views
        "+ views": (12 + 12) * 64,  # logistic
        "+ in-place": (4 + 1 + 16) * 64,  # the image, one narrow map, the second wide one
        "+ overlap": (4 + 16) * 64,  # the first wide one and the image, which the second still reads
        "+ moves": (4 + 16) * 64,
        "+ fusion": 13 * 64 + 4,  # no wide map is ever whole; the mixed one begins a few bytes below the joined one
    }


@pytest.mark.parametrize("seed", rest_in_sweeps(range(25), 8))
def test_no_technique_ever_costs_bytes(seed: int) -> None:
    graph = random_network(seed, 12)
    rows = ablation(graph)
    *arenas, best = rows.values()
    assert arenas == sorted(arenas, reverse=True), rows
    assert best == plan(graph).arena["sram"] <= plan(graph, Request("layer")).arena["sram"] <= arenas[0]
    assert rows["file order"] >= max(live_bytes(graph, file_order(graph), without_views(graph)))


@pytest.mark.parametrize("seed", rest_in_sweeps(range(25), 8))
def test_in_place_is_overlap_without_distance(seed: int) -> None:
    """Plans with any overlap distance, with distance 0 only, and without overlap need increasing bytes."""
    graph = random_network(seed, 16)
    order = file_order(graph)
    made = [plan_in_order(graph, order, max_distance=ANY_DISTANCE), plan_in_order(graph, order, max_distance=0)]
    made.append(plan_in_order(graph, order))
    assert [p.lower_bound for p in made] == sorted(p.lower_bound for p in made)
    alone = plan_in_order(graph, order, share=False)
    assert all(alone.variants) and all(name == place.buffer for name, place in alone.places.items())


OPTIONS: dict[str, tuple[str, dict]] = {  # name -> the last row, arguments of plan
    "kernels": ("+ fusion", {"core": "cortex-m4", "objective": "balanced"}),
    "streaming": ("+ streaming", {"stream_inputs": True, "stream_outputs": True}),
    "work again": ("+ work again", {"max_mac_overhead": 1.5}),
    "streaming and kernels": ("+ streaming", {"core": "cortex-m55", "objective": "balanced", "stream_inputs": True}),
    "memories": ("+ fusion", {"core": "cortex-m4", "limits": Limits(maps=({"dtcm": 400, "sram": 10000},))}),
    "layer": ("+ views", {"strategy": "layer"}),
    "unfused": ("+ moves", {"strategy": "unfused"}),
    "patch": ("+ patch", {"strategy": "patch:2:3"}),
    "msf": ("+ msf", {"strategy": "msf", "core": "cortex-m4"}),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_the_last_row_of_the_ablation_is_the_plan_for_any_options(name: str) -> None:
    """The figures use the plan's kernels, streams and strategy, and never increase."""
    graph, (last, options) = block(24, 24), OPTIONS[name]
    made = plan(graph, Request(**options))
    rows = ablation(graph, made, options.get("strategy", "best"))
    arenas = list(rows.values())
    assert arenas == sorted(arenas, reverse=True) and list(rows)[-1] == last, rows
    if len(made.arena) == 1:
        assert arenas[-1] == sum(made.arena.values())
    else:
        assert max(made.arena.values()) < arenas[-1] <= sum(made.arena.values())
