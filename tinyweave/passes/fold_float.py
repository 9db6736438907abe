"""What training leaves in a float graph and inference need not do: products and sums per channel, activations by themselves.

In: a Graph. Out: the same network but for the rounding of floats. A product or a sum with a constant per channel (a batch
normalisation) is part of the weights and the bias of the layer before it, and an activation is fused where TFLite's op has one;
both also where a slice lies between that keeps all channels, as after a transposed convolution. What no output needs is gone.
Integers stay as they are, and so do floats that have a scale already: their rounding is part of the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op, Tensor, rebuild
from ..ops.spec import is_pixel
from .drop_unused import drop_unused
from .rewrite import constant

# kind -> the axis of its weights, input 1, that the output's channels lie along; which input is the bias
LAYERS = {"conv_2d": (0, 2), "depthwise_conv_2d": (3, 2), "fully_connected": (0, 2), "transpose_conv": (0, 3)}
ACTIVATED = frozenset(("add", "mul", "sub", *LAYERS))  # kinds with a fused activation
ACTIVATIONS = frozenset(("relu", "relu6", "relu_n1_to_1"))
PER_CHANNEL = frozenset(("add", "mul", "sub"))
Wide = NDArray[np.float64]


def fold_float(graph: Graph) -> Graph:
    """Return the folded graph; its tensors keep the names of what remains."""
    graph, _ = drop_unused(graph)
    tensors, ops = dict(graph.tensors), list[Op | None](graph.ops)
    folded: dict[str, Wide] = {}  # changed constants, which are rounded once
    made_by = dict(graph.producer)
    for index, op in enumerate(graph.ops):
        operands = [name for name in op.inputs if name is not None and tensors[name].data is None]
        if op.kind not in ACTIVATIONS | PER_CHANNEL or len(operands) != 1 or not _is_plain(graph, operands[0]):
            continue
        place = last = made_by.get(operands[0], -1)
        while (before := ops[place] if place >= 0 else None) is not None and _keeps_channels(graph, before):
            place = made_by.get(before.inputs[0] or "", -1) if _is_plain(graph, before.inputs[0]) else -1
        if before is None or before.kind not in ACTIVATED or before.attrs["activation"] != "none":
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
    """Return whether a tensor is float, without a scale, and made for one op only."""
    tensor = graph.tensors[name or ""]
    is_read_once = len(graph.consumers[tensor.name]) == 1 and tensor.name not in graph.outputs
    return tensor.dtype == "float32" and tensor.quant is None and is_read_once


def _keeps_channels(graph: Graph, op: Op) -> bool:
    return op.kind == "slice" and graph.input(op).shape[-1:] == graph.output(op).shape[-1:]


def _per_channel(graph: Graph, op: Op, layer: Op, tensors: Mapping[str, Tensor]) -> Wide | None:
    """Return the constant of a product or sum, one value per channel of a layer; None where it is not for its weights."""
    if layer.kind not in LAYERS:
        return None
    weights = tensors[layer.inputs[1] or ""]
    first, second = graph.input(op), graph.input(op, 1)
    values, made = (second, first) if second.data is not None else (first, second)
    if values.data is None or (op.kind == "sub" and values is first) or made.shape != graph.output(op).shape:
        return None
    if weights.data is None or {weights.dtype, values.dtype} != {"float32"} or not (values.elements == 1 or is_pixel(values)):
        return None
    return np.broadcast_to(values.data.astype(np.float64).ravel(), made.shape[-1:])


def _with_own_constants(graph: Graph, layer: Op, tensors: dict[str, Tensor], folded: Mapping[str, Wide]) -> Op:
    """Return a layer with a bias, whose constants no other op reads."""
    axis, place = LAYERS[layer.kind]
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
    """Let the weights and the bias of a layer, in `folded`, compute what the op after it does."""
    axis, place = LAYERS[layer.kind]
    weights, bias = layer.inputs[1] or "", layer.inputs[place] or ""
    for name in (weights, bias):
        folded.setdefault(name, np.asarray(tensors[name].data, np.float64))
    if kind == "mul":
        folded[weights] = folded[weights] * values.reshape([-1 if a == axis else 1 for a in range(folded[weights].ndim)])
        folded[bias] = folded[bias] * values
    else:
        folded[bias] = folded[bias] + (values if kind == "add" else -values)
