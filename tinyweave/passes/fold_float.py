"""Fold batch normalisation and standalone activations of a float graph into the preceding layer.

A product or sum with one constant per channel becomes part of weights and bias, which only changes float rounding. A slice that
keeps all channels may lie between. Ops on integers, or on floats with a scale, stay: their rounding is part of the network.
Unused ops are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op, Tensor, rebuild
from ..ops import SPECS, UNKNOWN, spec_of
from ..ops.spec import ACTIVATIONS, is_pixel
from .drop_unused import drop_unused
from .rewrite import constant

Wide = NDArray[np.float64]


def fold_float(graph: Graph) -> Graph:
    """Fold normalisations and activations into the preceding layers, and drop unused ops; other tensors keep their names."""
    graph, _ = drop_unused(graph)
    tensors, ops = dict(graph.tensors), list[Op | None](graph.ops)
    folded: dict[str, Wide] = {}  # new constants in float64, rounded once at the end
    made_by = dict(graph.producer)
    for index, op in enumerate(graph.ops):
        operands = [name for name in op.inputs if name is not None and tensors[name].data is None]
        is_folded = op.kind in ACTIVATIONS or (spec_of(op).family == "binary" and spec_of(op).arithmetic)
        if not is_folded or len(operands) != 1 or not _is_plain(graph, operands[0]):
            continue
        place = last = made_by.get(operands[0], -1)
        while (before := ops[place] if place >= 0 else None) is not None and before.kind == "slice":
            if graph.input(before).shape[-1:] != graph.output(before).shape[-1:]:
                break
            place = made_by.get(before.inputs[0] or "", -1) if _is_plain(graph, before.inputs[0]) else -1
        # not into a pool: its output shares the scale of its input, whose range is wider than the clamped range
        spec = UNKNOWN if before is None else spec_of(before)
        if before is None or not spec.fuses_activation or spec.shares_scale or before.attrs["activation"] != "none":
            continue
        if op.kind in ACTIVATIONS:
            changed = replace(before, attrs={**before.attrs, "activation": op.kind})
        elif (values := _per_channel(graph, op, before, tensors)) is not None:
            before = _with_own_constants(graph, before, tensors, folded)
            _fold(before, op.kind, values, tensors, folded)
            changed = replace(before, attrs={**before.attrs, "activation": op.attrs["activation"]})
        else:
            continue
        ops[place], ops[index] = changed, None
        if (end := ops[last]) is not None:
            ops[last] = replace(end, outputs=op.outputs)
        made_by[op.outputs[0]] = last
    for name, wide in folded.items():
        tensors[name] = replace(tensors[name], data=wide.astype(np.float32))
    return rebuild(graph, tensors=tensors, ops=tuple(op for op in ops if op is not None))


def _is_plain(graph: Graph, name: str | None) -> bool:
    """Return whether a tensor is float32 without a scale, read by exactly one op, and no output of the graph."""
    tensor = graph.tensors[name or ""]
    is_read_once = len(graph.consumers[tensor.name]) == 1 and tensor.name not in graph.outputs
    return tensor.dtype == "float32" and tensor.quant is None and is_read_once


def _per_channel(graph: Graph, op: Op, layer: Op, tensors: Mapping[str, Tensor]) -> Wide | None:
    """Return the constant operand as one value per output channel of `layer`, or None if the op cannot be folded into it."""
    if SPECS[layer.kind].weights is None:
        return None
    own = [tensors[name] for name in (layer.inputs[1], *layer.inputs[_weights(layer)[1] :]) if name is not None]
    first, second = graph.input(op), graph.input(op, 1)
    values, made = (second, first) if second.data is not None else (first, second)
    if values.data is None or (op.kind == "sub" and values is first) or made.shape != graph.output(op).shape:
        return None
    if own[0].data is None or {each.dtype for each in (*own, values)} != {"float32"}:
        return None
    if not (values.elements == 1 or is_pixel(values)):
        return None
    return np.broadcast_to(values.data.astype(np.float64).ravel(), made.shape[-1:])


def _weights(layer: Op) -> tuple[int, int]:
    """Return the axis of output channels in a layer's weights, and the index of the bias among the layer's inputs."""
    weights = SPECS[layer.kind].weights
    assert weights is not None
    return weights.axis, weights.bias


def _with_own_constants(graph: Graph, layer: Op, tensors: dict[str, Tensor], folded: Mapping[str, Wide]) -> Op:
    """Return the layer with weights and bias of its own, added to `tensors`; constants in `folded` already are."""
    axis, place = _weights(layer)
    inputs = [*layer.inputs, *[None] * (place + 1 - len(layer.inputs))]
    for index, role in ((1, "weights"), (place, "bias")):
        name = inputs[index]
        if name is not None and (name in folded or len(graph.consumers[name]) == 1):
            continue
        data = tensors[name].data if name is not None else np.zeros(tensors[inputs[1] or ""].shape[axis], np.float32)
        assert data is not None
        own = constant(graph, layer, role, data)
        tensors[own.name], inputs[index] = own, own.name
    return replace(layer, inputs=tuple(inputs))


def _fold(layer: Op, kind: str, values: Wide, tensors: Mapping[str, Tensor], folded: dict[str, Wide]) -> None:
    """Fold an op "mul", "add" or "sub" into weights and bias, kept in `folded` in float64, to be rounded once."""
    axis, place = _weights(layer)
    weights, bias = layer.inputs[1] or "", layer.inputs[place] or ""
    for name in (weights, bias):
        folded.setdefault(name, np.asarray(tensors[name].data, np.float64))
    if kind == "mul":
        folded[weights] = folded[weights] * values.reshape([-1 if a == axis else 1 for a in range(folded[weights].ndim)])
        folded[bias] = folded[bias] * values
    else:
        folded[bias] = folded[bias] + (values if kind == "add" else -values)
