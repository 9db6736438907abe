"""The Pareto front of small networks compared with all plans."""

from __future__ import annotations

import random

import pytest
from cases.graphs import Net
from fuzz.attention import UNIT, Builder
from fuzz.generate import BY_ROW, HEADED, random_network
from planning.search.brute_force import ALSO, WORD, Network

from tinyweave.ir import Graph, Tensor
from tinyweave.kernels.table import variant_for
from tinyweave.ops import macs
from tinyweave.planning.alias.overlap import shared_in
from tinyweave.planning.fuse.row_access import StreamedIO
from tinyweave.planning.kernel_choice import PORTABLE, KernelRule
from tinyweave.planning.search.of_graph import problem_of
from tinyweave.planning.search.orders import stage_cycles_of
from tinyweave.planning.search.pareto import front as front_of
from tinyweave.planning.search.path_search import PathSearch

CORE = "cortex-m4"
USUAL = (*range(6), 16, 22, 30, 35, 166)  # 16: a skip within a tile; 35: a tile of all rows; 166: a tile that skips rows
SWEPT = (*range(60), 166)
TALL = -1  # a network in which only tiles of several rows pay
HEADS = (7, 13, 24, 28, 29, 30, 32)  # networks of HEADED with a dense layer that may take a map row by row
ATTENTION = -2  # an attention head whose queries, keys and values are network inputs
OVERHEADS = (0.0, 0.05, 0.3, 1.0)


def graph_of(seed: int) -> Graph:
    if seed == TALL:
        net = Net(12, 6, 2)
        return net.finish("tall", net.conv(net.conv("image", 24), 2, 3))
    if seed == ATTENTION:
        b = Builder(7, flat=True)
        q, k, v = b.input(6, 3), *(b.g.network_input(Tensor(name, (1, 1, 5, 3), "int8", UNIT)) for name in ("k", "v"))
        weights = b.softmax(b.product(q, k, turned=True))
        return b.finish(b.binary("add", q, b.product(weights, v, turned=False), 1 / 32))
    return random_network(seed, random.Random(seed).randint(2, 5), growers=BY_ROW, live=2)


@pytest.mark.parametrize(
    "seed", [TALL, ATTENTION, *(pytest.param(n, marks=[pytest.mark.sweep] * (n not in USUAL)) for n in SWEPT)]
)
@pytest.mark.parametrize("brought", [False, True], ids=["whole", "streamed"])
def test_no_plan_dominates_a_point_of_the_front(seed: int, brought: bool) -> None:
    """Each point of the front is also one of the enumerated plans."""
    compare_with_all_plans(graph_of(seed), brought=brought)


@pytest.mark.parametrize("seed", HEADS)
@pytest.mark.parametrize("brought", [False, True], ids=["whole", "streamed"])
def test_no_plan_dominates_a_point_of_the_front_of_a_network_with_a_dense_layer(seed: int, brought: bool) -> None:
    graph = random_network(seed, random.Random(seed).randint(2, 5), growers=HEADED, live=2)
    assert any(variant_for(graph, op).sums(graph, op) for op in graph.ops if op.kind == "fully_connected")
    compare_with_all_plans(graph, brought=brought)


def compare_with_all_plans(graph: Graph, *, brought: bool) -> None:
    """Assert that the Pareto front of a network is that of all its plans; `brought` streams the inputs with one reader."""
    order = tuple(range(len(graph.ops)))
    streamed = tuple(name for name in graph.inputs if len(graph.consumers.get(name, ())) == 1) if brought else ()
    if brought and not streamed:
        return  # an input with several readers cannot be streamed to unfused ops, with which all stages are compared
    network = Network(graph, order, CORE, streamed)
    space_points, every = (network.points(all_of_them=is_all) for is_all in (False, True))
    for overhead in OVERHEADS:
        budget = int(overhead * macs(graph))
        rows = ([(op.name, variant_for(graph, op, CORE, also).name) for op in graph.ops] for also in ALSO)
        kernels = [PORTABLE, *(KernelRule(CORE, frozenset(named)) for named in rows)]
        shared = shared_in(graph, order, parts=False)
        cycles_of = stage_cycles_of(graph, order, shared, kernels=kernels, streams=StreamedIO(streamed))
        search = PathSearch(problem_of(cycles_of, order, shared.owner, budget=budget))
        front = [(found.bytes, found.cycles) for found in front_of(search.fastest)]
        for bytes_, cycles, again in space_points:
            assert again > budget or any(b <= bytes_ and c <= cycles for b, c in front), (bytes_, cycles, again)
        for bytes_, cycles in front:
            words = WORD * len(graph.tensors)  # a plan aligns tensors and distances to words
            assert any(b <= bytes_ + words and c <= cycles and a <= budget for b, c, a in every), (bytes_, cycles)
