"""Generators of cases of ops with state: variables and svdf."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from tinyweave.ir import Graph, Op, Quant, Tensor, verify
from tinyweave.ops import check

from .draw import Array, Drawn, DrawnGraph, Rng, activation, constant, rescaled, scale, text


def through_state(kind: str, x: Tensor, initial: Array, *, computed: bool) -> Graph:
    """Return a graph that assigns the input to a variable and reads the output from it; op `kind` runs first.

    With `computed` there is a relu before and after.
    """
    state = replace(x, name="memory", role="state")
    tensors = [x, state, replace(x, name="read"), constant("memory.initial", initial, x.quant)]
    assign, read = ("x", "memory"), ("memory", "read")
    ops, output = [], "read"
    if computed:
        tensors += [replace(x, name="before"), replace(x, name="after")]
        ops, assign, output = [("relu", "x", "before")], ("before", "memory"), "after"
    moves = [("read_variable", *read), ("assign_variable", *assign)]
    moves = moves if kind == "read_variable" else moves[::-1]
    if computed:  # a value is read in the state's buffer, and computed in it after the last use of the old one
        used = ("relu", "read", "after")
        ops = [moves[0], used, *ops, moves[1]] if kind == "read_variable" else [*ops, *moves, used]
    else:
        ops = moves
    named = tuple(Op(f"{op}_{i}", op, (source,), (target,)) for i, (op, source, target) in enumerate(ops))
    init = (Op("init_memory", "assign_variable", ("memory.initial",), ("memory",)),)
    return check(verify(Graph(kind, {t.name: t for t in tensors}, named, ("x",), (output,), init)))


def _variable(kind: str) -> Callable[[Rng], Iterator[DrawnGraph]]:
    def draw(rng: Rng) -> Iterator[DrawnGraph]:
        for dtype, shape, computed in itertools.product(("int8", "int16", "float32"), ((1, 4, 5, 3), (7,)), (False, True)):
            if computed and dtype != "int8":
                continue
            x = activation("x", shape, rng, dtype=dtype)
            full = rng.integers(-100, 100, shape).astype(dtype)
            for about, initial in (("zeros", np.zeros_like(full)), ("values", full)):
                yield f"{dtype}-{text(shape)}-{about}", through_state(kind, x, initial, computed=computed)

    return draw


def _svdf(rng: Rng) -> Iterator[Drawn]:
    for number in range(30):
        batch, depth, units, rank, steps = (
            int(rng.choice(v)) for v in ([1, 1, 2], [1, 5, 16], [1, 3, 8], [1, 1, 2], [1, 4, 9])
        )
        x, out = activation("input", (batch, depth), rng), activation("output", (), rng)
        weights = constant(
            "weights", rng.integers(-127, 128, (units * rank, depth)).astype(np.int8), Quant((scale(rng),), (0,))
        )
        state_scale = float(np.float32(x.scale * weights.scale * 75 * 75 * depth**0.5 / 9000 * rng.uniform(0.3, 3)))
        state = Tensor("state", (batch, units * rank * steps), "int16", Quant((state_scale,), (0,)), role="state")
        values = rng.integers(-20000, 20000, (units * rank, steps)).astype(np.int16)
        # small enough for sums below 2^31
        time = constant("time", values // np.int16(steps * rank), Quant((scale(rng, 1e-5, 1e-3),), (0,)))
        out = rescaled(out, state_scale * time.scale * 9000 * 10000 / 60 * rng.uniform(0.05, 1))
        bias = None
        if number % 4:
            quant = Quant((float(np.float32(state_scale * time.scale)),), (0,))
            bias = constant("bias", rng.integers(-(1 << 26), 1 << 26, units).astype(np.int32), quant)
        about = f"{batch}x{depth}to{units}-rank{rank}-{steps}steps"
        yield about, [x, weights, time, bias, state], out, {"rank": rank, "activation": "relu"}


GENERATORS: dict[str, Callable[[Rng], Iterator[Any]]] = {
    "assign_variable": _variable("assign_variable"),
    "read_variable": _variable("read_variable"),
    "svdf": _svdf,
}
