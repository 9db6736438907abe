"""Relocation: copying tensors between steps reduces the arena to the bytes of the busiest step, with the same outputs."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from cases.tiny import NETWORKS, activation, constant, graph, ramp
from codegen.emitted import prove
from fuzz.generate import random_network

from tinyweave import ops
from tinyweave.ir import CompileError, Graph, Op, fingerprint, verify
from tinyweave.planning import Plan, Request, check, from_json, plan, to_json
from tinyweave.planning.alias.overlap import distances, views
from tinyweave.planning.check import UnsoundPlanError
from tinyweave.planning.order.order_search import file_order
from tinyweave.planning.place.place import NO_RULES, Rules
from tinyweave.planning.place.relocate import find_relocation
from tinyweave.planning.place.relocation_ops import is_move, lone_tensors, with_moves
from tinyweave.planning.plan import Buffer
from tinyweave.simulate import compare

SEEDS = (0, 19, 26)


def moves(made: Plan) -> list[Op]:
    return [op for op in made.graph.ops if is_move(op)]


def separable(layers: int = 4) -> Graph:
    """Return a chain of alternating 3x3 and 1x1 convolutions with one channel count."""
    sides = [activation(f"t{i}", (1, 10, 9, 8)) for i in range(2 * layers + 1)]
    window = {"stride": (1, 1), "dilation": (1, 1), "activation": "none"}
    tensors, chain = [*sides], []
    for i, (x, y) in enumerate(pairwise(sides)):
        same, shape = ((1, 1), (1, 1)) if i % 2 == 0 else ((0, 0), (0, 0)), (1, 3, 3, 8) if i % 2 == 0 else (8, 1, 1, 8)
        tensors.append(constant(f"w{i}", ramp(shape, 17 + i), (0.003,)))
        kind = "depthwise_conv_2d" if i % 2 == 0 else "conv_2d"
        chain.append(Op(f"{kind}_{i}", kind, (x.name, f"w{i}", None), (y.name,), window | {"padding": same}))
    return graph("separable", tensors, chain, (sides[0].name,), (sides[-1].name,))


def test_relocation_avoids_adding_up_the_overlap_distances_of_a_chain(tmp_path: Path) -> None:
    """Each output starts its overlap distance below its input; without relocation these distances add up."""
    made, layer = plan(separable()), plan(separable(), Request("layer"))
    by_op = distances(layer.graph, layer.variants, views(layer.graph))
    every = [distance for of_op in by_op for distance in of_op.values()]
    assert len(every) == 8 and min(every) > 0
    assert made.arena["sram"] == made.lower_bound == 720 + max(every)
    assert len(moves(made)) <= 7
    prove(made, tmp_path)


@lru_cache
def moving() -> dict[int, Plan]:
    """Return seed of a random network of 16 steps -> its best unfused plan, for those plans that have relocations."""
    plans = {seed: plan(random_network(seed, 16), Request("unfused")) for seed in SEEDS}
    assert all(map(moves, plans.values())), "take other seeds"
    return plans


def test_random_networks_with_relocations_give_the_bytes_of_the_reference(tmp_path: Path) -> None:
    for seed, made in moving().items():
        original = random_network(seed, 16)
        assert made.arena["sram"] < plan(original, Request("layer")).arena["sram"]
        verify(made.graph)
        assert made.graph.inputs == original.inputs and made.graph.outputs == original.outputs
        inputs = dict(zip(original.inputs, compare.samples(original, 4, seed)[-1], strict=True))
        wanted, got = (ops.run(g, inputs) for g in (original, made.graph))
        assert all(compare.difference(wanted[name], got[name]) is None for name in original.outputs)
        prove(made, tmp_path / str(seed), seed=seed)


def test_relocations_are_deterministic_and_survive_json() -> None:
    for seed, made in moving().items():
        original = random_network(seed, 16)
        assert to_json(made) == to_json(plan(original))
        read = from_json(to_json(made), original)
        assert fingerprint(read.graph) == fingerprint(made.graph)
        assert to_json(check(read)) == to_json(made)
        with pytest.raises(CompileError, match="another graph"):
            from_json(to_json(made), random_network(seed + 1, 16))


def test_a_relocated_tensor_that_is_overwritten_is_refused() -> None:
    made = plan(separable())
    target = moves(made)[0].outputs[0]
    later = next(b for b in made.buffers if b.start > made.buffer(target).start and b.start < made.buffer(target).end)
    offsets = {**made.offsets, later.name: made.offsets[target]}
    arena = max(offsets[b.name] + b.bytes for b in made.buffers)
    with pytest.raises(UnsoundPlanError, match="own operand"):
        check(replace(made, offsets=offsets, arena={"sram": arena}))


def test_ops_after_a_relocation_read_the_relocated_tensor() -> None:
    """Ops before a relocation read the old tensor, later ones the new tensor; inputs and outputs keep their names."""
    original = NETWORKS["residual"]()
    first, last = original.inputs[0], original.outputs[0]
    consumer = original.consumers[first][0]
    steps: list[int | str] = [first, *range(len(original.ops)), last, last]
    moved, names = with_moves(original, steps)
    verify(moved)
    assert names == {first: [first, f"{first}:moved_1"], last: [f"{last}:moved_1", f"{last}:moved_2", last]}
    assert moved.ops[0].inputs == (first,) and f"{first}:moved_1" in moved.ops[consumer + 1].inputs
    assert (moved.inputs, moved.outputs) == (original.inputs, original.outputs)
    values = {first: compare.samples(original, 4, 0)[-1][0]}
    assert np.array_equal(ops.run(moved, values)[last], ops.run(original, values)[last])
    with pytest.raises(CompileError, match="cannot move"):
        with_moves(original, ["nothing", *range(len(original.ops))])


def test_state_and_shared_buffers_may_not_be_relocated() -> None:
    """State may never be relocated, a buffer only while exactly one tensor in it is needed."""
    stream = NETWORKS["stream"]()
    order = file_order(stream)
    owner = views(stream, order)
    state = {name for name, tensor in stream.tensors.items() if tensor.role == "state"}
    assert state and not state.intersection(buffer for buffer, _ in lone_tensors(stream, [(index,) for index in order], owner))
    x, y, z = (activation(name, (1, 8)) for name in "xyz")
    view = Op("reshape_0", "reshape", ("x",), ("y",), {"new_shape": None})
    add = Op("add_1", "add", ("x", "y"), ("z",), {"activation": "none"})
    both = graph("both", [x, y, z], [view, add], ("x",), ("z",))
    assert lone_tensors(both, [(0,), (1,)], views(both)) == {("x", 0): "x"}


def stepwise(rng: random.Random) -> tuple[list[Buffer], Rules, int]:
    """Return buffers like those of a network with branches, the rules of its outputs, and the bytes of its busiest step."""
    steps = rng.randint(3, 14)
    buffers = [Buffer("in", 4 * rng.randint(1, 60), 0, rng.randint(1, 3))]
    buffers += [Buffer(f"b{s}", 4 * rng.randint(1, 60), s, min(steps, s + 2 + rng.choice([0, 0, 1, 3]))) for s in range(steps)]
    rules, needs = {}, []
    for step in range(steps):
        alive = [b for b in buffers if b.start <= step < b.end]
        need = sum(b.bytes for b in alive)
        dying = [b for b in alive if b.end == step + 1 and b.name != f"b{step}"]
        if dying:
            upper, lower = dying[0], buffers[step + 1]
            distance = 4 * rng.randint(0, 20)
            rules[lower.name, upper.name] = distance
            need -= upper.bytes + lower.bytes - max(lower.bytes, min(distance, lower.bytes) + upper.bytes)
        needs.append(need)
    return buffers, rules, max(needs)


def test_relocation_always_reaches_the_bytes_of_the_busiest_step() -> None:
    """In every intermediate layout, live buffers overlap only by a rule, and relocations copy to free bytes."""
    moved = 0
    for seed in range(150):
        buffers, rules, need = stepwise(random.Random(seed))
        assert find_relocation(buffers, rules, need - 4, ((), {"in"}), lambda name, step: True) is None, seed
        found = find_relocation(buffers, rules, need, ((), {"in"}), lambda name, step: True)
        assert found is not None and found.bytes == need, seed
        moved += bool(found.moved)
        left = {name: list(offsets) for name, offsets in found.offsets.items()}
        sizes = {b.name: b.bytes for b in buffers}
        at: dict[str, int] = {"in": left["in"].pop(0)}
        for step in range(max(b.end for b in buffers)):
            at = {name: offset for name, offset in at.items() if step < next(b.end for b in buffers if b.name == name)}
            for name in [name for when, name in found.moved if when == step]:
                at[name] = left[name].pop(0)
                assert apart(at, sizes, NO_RULES), seed
            at |= {b.name: left[b.name].pop(0) for b in buffers if b.start == step and b.name != "in"}
            assert apart(at, sizes, rules), seed
        assert not any(left.values()), seed
    assert moved > 25


def apart(at: dict[str, int], sizes: dict[str, int], rules: Rules) -> bool:
    allowed = {frozenset((a, b)) for (a, b), distance in rules.items() if at.get(a, 1) + distance <= at.get(b, 0)}
    return all(
        a == b or at[a] + sizes[a] <= at[b] or at[b] + sizes[b] <= at[a] or frozenset((a, b)) in allowed for a in at for b in at
    )
