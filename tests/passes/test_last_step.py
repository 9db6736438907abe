"""A recurrent layer writes only its final state if no op reads the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cases.draw import constant, integers
from cases.ops import cases

from tinyweave import ops
from tinyweave.ir import Graph, Op, Tensor, verify
from tinyweave.passes.last_step import last_step

TIME = 7


def network(kind: str, reverse: bool, step: int, count: int = 1) -> Graph:
    """A layer of several time steps, and a slice of its states from `step` on."""
    found = (case.graph for case in cases(kind))
    graph = next(g for g in found if g.input(g.ops[0]).shape[1] == TIME and g.ops[0].attrs["reverse"] == reverse)
    (op,), cells = graph.ops, graph.output(graph.ops[0]).shape[2]
    layer = replace(op, attrs={**op.attrs, "last": 0.0}, outputs=("states",))
    operands = constant("begin", np.array([0, step, 0], np.int32)), integers("size", 1, count, cells)
    out = graph.tensors["output"]
    tensors = [replace(out, name="states", shape=(1, TIME, cells)), replace(out, shape=(1, count, cells)), *operands]
    cut = Op("cut", "slice", ("states", "begin", "size"), ("output",))
    named = {**graph.tensors, **{tensor.name: tensor for tensor in tensors}}
    return ops.check(verify(replace(graph, tensors=named, ops=(layer, cut))))


def outputs(graph: Graph) -> np.ndarray:
    rng = np.random.default_rng(0)
    (value,) = ops.run(graph, {n: rng.integers(-128, 128, graph.tensors[n].shape, np.int8) for n in graph.inputs}).values()
    return value


@pytest.mark.parametrize("kind", ["gru", "simple_rnn"])
@pytest.mark.parametrize("reverse", [False, True])
def test_only_the_final_state_is_written(kind: str, reverse: bool) -> None:
    graph = network(kind, reverse, 0 if reverse else TIME - 1)
    shorter, _ = last_step(graph)
    (op,) = ops.check(verify(shorter)).ops
    assert op.attrs["last"] == 1.0 and np.array_equal(outputs(shorter), outputs(graph))


@pytest.mark.parametrize(("reverse", "step", "count"), [(False, 0, 1), (True, TIME - 1, 1), (False, TIME - 2, 2)])
def test_other_states_stay(reverse: bool, step: int, count: int) -> None:
    graph = network("gru", reverse, step, count)
    assert [op.kind for op in last_step(graph)[0].ops] == ["gru", "slice"]


def test_states_that_are_outputs_or_float32_stay() -> None:
    graph = network("gru", False, TIME - 1)
    both = replace(graph, outputs=("states", "output"))
    assert last_step(both)[0].ops == both.ops
    real = {n: Tensor(n, t.shape, "float32", None, t.data, t.role) for n, t in graph.tensors.items()}
    floats = replace(graph, tensors=real | {n: graph.tensors[n] for n in ("begin", "size")})
    assert last_step(floats)[0].ops == floats.ops
