"""Cycles of a layer from its shape alone, for who has no time to build and run it: the planner, a search.

In: a graph, one of its ops, the kernel that runs it, a core, and which part of the output one call computes. Out: cycles,
estimated: the sum of what the kernel does, each so often as its loops say, times constants that bench/fit_cycles.py has fitted
to what emulated runs of real networks took (layer_cycles.json, by core and kernel). Flash answers at once. bench/fit_cycles.py
also says how far off they are. Nothing was fitted for int4 values: their kernels count as those of int8 (`timed_as`), whose
cycles are up to a third fewer, see bench/int4.py.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from ..ir import Graph, Op, Tensor
from ..ops import SPECS
from .table import BY_NAME, DSP, MVE, RV32M

CONSTANTS = Path(__file__).with_name("layer_cycles.json")
Extent = tuple[int, int] | None  # rows and columns of the output; None: all of it


def layer_cycles(graph: Graph, op: Op, variant: str, core: str, part: Extent = None) -> float | None:
    """Of one call of the kernel called `variant`, "" for none; None where that has no constants for `core`."""
    if not variant:
        return 0.0
    row = BY_NAME[variant]
    case, counted = row.features(*cut(graph, op, part))
    constants = _constants().get(core, {}).get((row.timed_as or row.name) + case)
    return None if constants is None else sum(a * b for a, b in zip(constants, counted, strict=True))


def cut(graph: Graph, op: Op, part: Extent) -> tuple[Graph, Op]:
    """The op on maps that are no larger than a part of its output needs, without padding along an axis that is cut."""
    if part is None:
        return graph, op
    out, windows = graph.output(op), SPECS[op.kind].windows(graph, op)
    if windows is None or part == out.shape[1:3]:
        return graph, op
    tensors = {tensor.name: tensor for tensor in (*graph.inputs_of(op), out) if tensor is not None}
    shapes = {name: list(tensor.shape) for name, tensor in tensors.items() if tensor.data is None}
    padding = list(op.attrs.get("padding", ()))
    for axis, (size, window) in enumerate(zip(part, windows, strict=True)):
        if size == out.shape[1 + axis]:
            continue
        seen = -(-(size - 1) * window.stride // window.up) + window.extent
        for name, shape in shapes.items():
            shape[1 + axis] = size if name == out.name else min(shape[1 + axis], seen)
        if padding:
            padding[axis] = (0, 0)
    for name, shape in shapes.items():  # by its constructor: `replace` takes four times as long, and a search asks often
        whole = tensors[name]
        tensors[name] = Tensor(name, tuple(shape), whole.dtype, whole.quant, None, whole.role)
    attrs = {**op.attrs, "padding": tuple(padding)} if padding else op.attrs
    return Graph(graph.name, tensors, (alone := Op(op.name, op.kind, op.inputs, op.outputs, attrs),), (), ()), alone


def cost_model_core(core: str) -> str:
    """Return the core whose cycles plans for `core` are compared by: its own, else one with the same kernels."""
    if core in _constants():
        return core
    others = ((MVE, "cortex-m55"), (DSP, "cortex-m4"), (RV32M, "rv32imc"))
    return next((other for cores, other in others if core in cores), "cortex-m3")


@cache
def _constants() -> dict[str, dict[str, list[float]]]:
    return dict(json.loads(CONSTANTS.read_text()))


def counts(graph: Graph, op: Op, variant: str) -> tuple[str, tuple[float, ...]]:
    """Return under which name the constants of a kernel stand for an op, and how often what each of them stands for is done."""
    case, counted = BY_NAME[variant].features(graph, op)
    return variant + case, counted
