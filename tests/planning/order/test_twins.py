"""Branches that can be exchanged: a search that treats them as equal finds the same peak as all orders, in fewer sets."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

import pytest
from fuzz.attention import Builder
from planning.order.test_order_search import all_orders, random_graph, random_owners

from tinyweave.ir import Graph, Op, Tensor
from tinyweave.passes.attention.attention_rows import attention_rows
from tinyweave.planning.alias.overlap import distances, saved_bytes, shared_in
from tinyweave.planning.kernel_choice import variants_in
from tinyweave.planning.order import order_search
from tinyweave.planning.order.op_sets import Saved, merged_sequences, order_problem
from tinyweave.planning.order.order_search import best_order, file_order, live_bytes, without_views
from tinyweave.planning.order.twins import twins_of


def repeated(rng: random.Random, count: int, copies: int) -> tuple[Graph, dict[str, str], list[int]]:
    """Return a network of equal random branches of `count` ops between a first and a last op, owners, and scratch per op."""
    branch = random_graph(rng, count)
    owner = random_owners(rng, branch)
    scratch = [rng.choice([0, 0, 50]) for _ in branch.ops]
    tensors = {"x": Tensor("x", (20,), "int8"), "y": Tensor("y", (5,), "int8")}
    tensors |= {name: branch.tensors[name] for name in branch.inputs}
    ops, owners = [Op("first", "unknown", ("x",), branch.inputs)], {"x": "x", "y": "y", **{n: owner[n] for n in branch.inputs}}
    for copy in range(copies):
        of = {name: name if name in branch.inputs else f"{name}_{copy}" for name in branch.tensors}
        tensors |= {of[name]: replace(tensor, name=of[name]) for name, tensor in branch.tensors.items()}
        owners |= {of[name]: of[home] for name, home in owner.items()}
        for op in branch.ops:
            outputs = tuple(of[n] for n in op.outputs)
            ops.append(replace(op, name=f"{op.name}_{copy}", inputs=tuple(of[n] for n in op.inputs), outputs=outputs))
    last = [f"{name}_{copy}" for copy in range(copies) for name in branch.outputs if name not in branch.inputs]
    ops.append(Op("last", "unknown", tuple(last), ("y",)))
    return Graph("twins", tensors, tuple(ops), ("x",), ("y",)), owners, [0, *scratch * copies, 0]


def saving(graph: Graph, owner: dict[str, str], count: int, parts: list[int]) -> Saved:
    """Return savings: op i of each branch saves a part of the tensors whose last use it is, at most its output."""

    def saved(index: int, last_used: frozenset[str]) -> int:
        op = graph.ops[index]
        if op.name in ("first", "last"):
            return 0
        read = {owner[n] for n in op.inputs} - {owner[n] for n in op.outputs}
        written = sum(graph.tensors[n].bytes for n in op.outputs if owner[n] == n)
        return min(written, sum(graph.tensors[n].bytes for n in read & last_used) * parts[(index - 1) % count] // 4)

    return saved


@pytest.mark.parametrize("seed", range(48))
def test_no_order_of_twins_is_better(seed: int) -> None:
    """Two of three networks differ in one place, so some of their branches are no twins."""
    rng = random.Random(seed)
    count, copies = rng.choice([(1, 3), (2, 2), (2, 3), (3, 2)])
    graph, owner, scratch = repeated(rng, count, copies)
    name = rng.choice([n for n in graph.tensors if owner[n] == n])
    if seed % 3 == 1:
        graph = replace(graph, tensors={**graph.tensors, name: replace(graph.tensors[name], shape=(rng.randint(1, 150),))})
    if seed % 3 == 2:
        graph = replace(graph, outputs=tuple(dict.fromkeys((*graph.outputs, name))))
    saved = saving(graph, owner, count, [rng.choice([0, 2, 4]) for _ in range(count)]) if seed % 2 else None
    found = best_order(graph, owner, scratch, saved)
    peaks = {order: max(live_bytes(graph, order, owner, scratch, saved)) for order in all_orders(graph)}
    assert found.peak == found.lower_bound == peaks[found.ops] == min(peaks.values()), seed


def test_a_search_over_twins_visits_fewer_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both searches prove the same peak. In 18 of 20 networks, twins leave at most half of the sets."""
    states = []
    for seed in range(20):
        rng = random.Random(seed)
        graph, owner, scratch = repeated(rng, 5, 3)
        found = best_order(graph, owner, scratch)
        with monkeypatch.context() as patch:
            patch.setattr(order_search, "twins_of", lambda problem: [])
            plain = best_order(graph, owner, scratch)
        assert found.peak == found.lower_bound == plain.peak == plain.lower_bound, seed
        states.append((found.states, plain.states))
    assert sum(2 * few <= many for few, many in states) >= 18, states


def chains(**changed: int) -> Graph:
    """Return four chains of two ops that read x; the tensors named in `changed` have other sizes."""
    sizes = {"x": 9, "y": 1, **{f"a{i}": 100 for i in range(4)}, **{f"b{i}": 10 for i in range(4)}, **changed}
    ops = [
        op
        for i in range(4)
        for op in (Op(f"a{i}", "unknown", ("x",), (f"a{i}",)), Op(f"b{i}", "unknown", (f"a{i}",), (f"b{i}",)))
    ]
    ops.append(Op("last", "unknown", tuple(f"b{i}" for i in range(4)), ("y",)))
    return Graph("chains", {name: Tensor(name, (size,), "int8") for name, size in sizes.items()}, tuple(ops), ("x",), ("y",))


def shifts(graph: Graph, scratch: tuple[int, ...] = (), saved: Saved | None = None) -> list[tuple[int, ...]]:
    problem = order_problem(graph, without_views(graph), scratch, saved)
    problem.sequences = merged_sequences(problem)
    return [group.shifts for group in twins_of(problem)]


def test_branches_are_twins_only_if_nothing_tells_them_apart() -> None:
    graph = chains()
    assert shifts(graph) == [(0, 2, 4, 6)]
    assert shifts(chains(a1=101)) == [(0, 4, 6)], "a tensor has another size"
    assert shifts(replace(graph, outputs=("y", "b3"))) == [(0, 2, 4)], "a tensor is a network output"
    assert shifts(graph, scratch=(0, 0, 7, *[0] * 6)) == [(0, 2)], "an op has scratch"
    assert shifts(graph, saved=lambda index, names: 5 * (index == 5 and "a2" in names)) == [(0, 2)], "an op saves bytes"
    reader = replace(graph.ops[-1], name="reader", inputs=("b0",), outputs=("z",))
    more = Graph("more", {**graph.tensors, "z": Tensor("z", (1,), "int8")}, (*graph.ops, reader), ("x",), ("y", "z"))
    assert shifts(more) == [], "with a second reader of b0, the ops are one branch"


def test_the_heads_of_an_attention_layer_are_twins() -> None:
    """Without twins, the search would visit 79,784 sets."""
    b = Builder(3)
    x = b.input(64, 16)
    q, k, v = (b.transpose(b.reshape(b.dense(x, 16), 1, 64, 4, 4), 0, 2, 1, 3) for _ in range(3))
    heads = b.product(b.softmax(b.product(q, k, turned=True)), v, turned=False)
    graph, _ = attention_rows(b.finish(b.reshape(b.transpose(heads, 0, 2, 1, 3), 1, 64, 16)))
    shared = shared_in(graph, file_order(graph), parts=False)
    saved = partial(saved_bytes, graph, shared.owner, distances(graph, variants_in(graph, shared), shared.owner))
    found = best_order(graph, shared.owner, saved=saved)
    assert list(map(len, shifts(graph, saved=saved))) == [4]
    assert found.peak == found.lower_bound and found.states < 6_000
