"""Lifetimes equal their definition on random networks with state, in random orders and stages."""

from __future__ import annotations

import random

import pytest
from cases.tiny import NETWORKS
from fuzz.generate import random_network, random_order

from tinyweave.ir import Graph
from tinyweave.planning import Request, plan
from tinyweave.planning.alias.overlap import views
from tinyweave.planning.liveness import BEFORE, alive, lifetimes
from tinyweave.planning.order.order_search import without_views
from tinyweave.report.tables import graph_layers

Stages = list[tuple[int, ...]]


def by_definition(graph: Graph, stages: Stages, owner: dict[str, str], by_rows: tuple[str, ...]) -> list[set[str]]:
    """Return lifetimes by definition: an owner is alive in a step if it is touched in or before it, and in or after it."""
    state = {name for name, tensor in graph.tensors.items() if tensor.role == "state"}
    first = [{*graph.inputs, *state} - set(by_rows)]
    steps = [{name for i in ops for name in (*graph.ops[i].inputs, *graph.ops[i].outputs) if name} for ops in stages]
    last = [{*graph.outputs, *state} - set(by_rows)]
    found = []
    for step in range(len(stages)):
        earlier = set[str]().union(*first, *steps[: step + 1])
        later = set[str]().union(*steps[step:], *last, first[0] if step == 0 else ())
        found.append({owner[x] for x in earlier if x in owner} & {owner[x] for x in later if x in owner})
    return found


@pytest.mark.parametrize("seed", range(24))
def test_lifetimes_equal_their_definition(seed: int) -> None:
    rng = random.Random(seed)
    graph = random_network(seed, rng.randint(3, 16))
    order, stages = random_order(graph, rng), Stages()
    while order:
        count = rng.choice((1, 1, 2, 4))
        stages, order = [*stages, order[:count]], order[count:]
    owner = rng.choice((views(graph, tuple(i for ops in stages for i in ops)), without_views(graph)))
    by_rows = tuple(name for name in (*graph.inputs, *graph.outputs) if rng.random() < 0.3)
    lives = lifetimes(graph, stages, owner, by_rows=by_rows)
    expected = by_definition(graph, stages, owner, by_rows)
    assert [set(names) for names in alive(lives, len(stages))] == expected
    for name, life in lives.items():
        views_of = {x for x, home in owner.items() if home == name}
        is_state = graph.tensors[name].role == "state"
        assert life.persistent == (is_state or not views_of.isdisjoint(set(graph.outputs) - set(by_rows)))
        assert (life.begin == BEFORE) == (is_state or not views_of.isdisjoint(set(graph.inputs) - set(by_rows)))


def test_the_networks_above_have_state() -> None:
    with_state = [seed for seed in range(60) if random_network(seed, random.Random(seed).randint(3, 16)).init]
    assert len(with_state) >= 8


def test_inspect_counts_state_as_live_in_every_step() -> None:
    """The two kept inputs (8 B) and the count (1 B) are alive in every step."""
    graph = NETWORKS["stream"]()
    kept = sum(tensor.bytes for tensor in graph.tensors.values() if tensor.role == "state")
    assert kept == 9
    live = [layer.live for layer in graph_layers(graph)]
    lives = lifetimes(graph, [(index,) for index in range(len(graph.ops))], views(graph))
    assert live == [sum(graph.tensors[n].bytes for n in names) for names in alive(lives, len(graph.ops))]
    assert min(live) >= kept
    # in the file's order without overlaps, a plan needs the live bytes of inspect
    assert max(live) == plan(graph, Request("layer")).live(max(range(len(live)), key=live.__getitem__))


@pytest.mark.parametrize("seed", range(16))
def test_live_bytes_of_inspect_equal_those_of_the_layer_plan(seed: int) -> None:
    graph = random_network(seed, 12)
    made = plan(graph, Request("layer"))
    steps = [made.live(step) for step in range(len(made.stages))]
    assert [layer.live for layer in graph_layers(graph)] == steps
