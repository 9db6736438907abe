"""Fold the normalisation of 8-bit inputs, such as (x - 128) / 255 of a camera's bytes, into the scale of the input.

An importer makes such an input uint8 or int8, with scale 1 and zero point 0, and a dequantize op where the network casts it to
float32. Products and sums with one constant after this op change only the scale and the zero point. If the zero point would not
be an integer of the type, such as 127.5, it stays 0, and one sum remains.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np

from ..ir import Graph, Op, Quant, limits, rebuild
from ..ops import spec_of
from ..passes.rewrite import constant, each_op, is_only_for, maker

TOLERANCE = 1e-4  # largest distance of a zero point from an integer; the constants of a normalisation are rounded decimals


def fold_input_scales(graph: Graph) -> Graph:
    """Fold products and sums with one constant into the scales of the 8-bit inputs that the network casts to float32."""
    return each_op(graph, _folded)


def _folded(graph: Graph, op: Op) -> Graph:
    """Fold products and sums after the dequantize op `op` into the scale of the network's input, which only moves precede."""
    if op.kind != "dequantize" or graph.input(op).quant != Quant((1.0,), (0,)):
        return graph
    byte, moved = graph.input(op), [graph.input(op).name]
    path = [op]
    while (before := maker(graph, graph.tensors[moved[-1]])) is not None:
        if spec_of(before).family not in ("view", "copy") or len(before.outputs) > 1:
            return graph
        moved.append(before.inputs[0] or "")
        path.append(before)
    if not all(is_only_for(graph, graph.tensors[name], reader) for name, reader in zip(moved, path, strict=True)):
        return graph
    factor, offset, last, made = 1.0, 0.0, op, list[Op]()
    while (step := _next(graph, last)) is not None:
        number = float(next(t.data for t in graph.inputs_of(step) if t is not None and t.data is not None).ravel()[0])
        factor = factor * number if step.kind == "mul" else factor
        offset = {"mul": offset * number, "add": offset + number, "sub": offset - number}[step.kind]
        made.append(step)
        last = step
    if not made or not 0 < np.float32(factor) < inf:
        return graph
    zero_point, (least, most) = round(-offset / factor), limits(byte.dtype)
    is_exact = abs(zero_point + offset / factor) < TOLERANCE and least <= zero_point <= most
    quant = Quant((float(np.float32(factor)),), (zero_point if is_exact else 0,))
    tensors = {**graph.tensors, **{name: replace(graph.tensors[name], quant=quant) for name in moved}}
    ends = [replace(op, outputs=last.outputs)]
    if not is_exact:
        rest = constant(graph, last, "offset", np.array([offset], np.float32))
        tensors[rest.name] = rest
        ends = [op, Op(last.name, "add", (*op.outputs, rest.name), last.outputs, {"activation": "none"})]
    ops = (new for each in graph.ops if each not in made for new in (ends if each is op else [each]))
    return rebuild(graph, tensors=tensors, ops=tuple(ops))


def _next(graph: Graph, op: Op) -> Op | None:
    """Return the op that multiplies the output of `op` by one constant, or adds or subtracts one; None if it is another op."""
    made = graph.output(op)
    readers = graph.consumers.get(made.name, ())
    if len(readers) != 1 or made.name in graph.outputs or made.quant is not None:
        return None
    step = graph.ops[readers[0]]
    constants = [t for t in graph.inputs_of(step) if t is not None and t.data is not None]
    is_plain = spec_of(step).arithmetic and step.attrs["activation"] == "none" and graph.output(step).shape == made.shape
    is_reversed = step.kind == "sub" and step.inputs[0] != made.name
    return step if is_plain and [(t.elements, t.dtype) for t in constants] == [(1, "float32")] and not is_reversed else None
