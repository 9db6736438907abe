"""What training leaves in a float graph and inference need not do: products and sums per channel, activations by themselves.

In: a Graph of float32 as an importer built it. Out: the same network. A product or a sum with a constant per channel is part of
the weights and the bias of the layer before it, an activation is fused where TFLite's op has one, and what no output needs is
gone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op, Tensor, rebuild

BIAS = {"conv_2d": 2, "depthwise_conv_2d": 2, "fully_connected": 2, "transpose_conv": 3}
CHANNELS = {"depthwise_conv_2d": 3}  # the axis of the weights that is the output's channel, where it isn't the first
ACTIVATED = frozenset(("add", "mul", "sub", *BIAS))  # kinds with a fused activation
ACTIVATIONS = frozenset(("relu", "relu6", "relu_n1_to_1"))


def folded(graph: Graph) -> Graph:
    """Return the graph without what can be folded; tensors keep the names of what remains."""
    graph = _needed(graph)
    tensors, ops = dict(graph.tensors), list[Op | None](graph.ops)
    wide: dict[str, NDArray[np.float64]] = {}  # folded constants before they are rounded once
    made_by = {name: index for index, op in enumerate(graph.ops) for name in op.outputs}
    for index, op in enumerate(graph.ops):
        source = op.inputs[0]
        if source not in made_by or len(graph.consumers[source]) > 1 or source in graph.outputs:
            continue
        before = ops[made_by[source]]
        assert before is not None
        if op.kind in ACTIVATIONS and before.kind in ACTIVATED and before.attrs["activation"] == "none":
            changed = replace(before, attrs={**before.attrs, "activation": op.kind})
        elif op.kind in ("add", "mul", "sub") and _is_per_channel(tensors, op, before):
            values = tensors[op.inputs[1] or ""].data
            assert values is not None
            _fold(tensors, wide, before, op.kind, values.astype(np.float64))
            changed = replace(before, attrs={**before.attrs, "activation": op.attrs["activation"]})
        else:
            continue
        place = made_by[op.outputs[0]] = made_by[source]
        ops[place], ops[index] = replace(changed, outputs=op.outputs), None
    for name, values in wide.items():
        tensors[name] = replace(tensors[name], data=values.astype(np.float32))
    left = [op for op in ops if op is not None]
    numbered = tuple(replace(op, name=f"{op.kind}_{index}") for index, op in enumerate(left))
    return rebuild(graph, tensors=tensors, ops=numbered)


def _is_per_channel(tensors: dict[str, Tensor], op: Op, before: Op) -> bool:
    constant, out = tensors[op.inputs[1] or ""], tensors[op.outputs[0]]
    if constant.data is None or before.kind not in BIAS or before.attrs["activation"] != "none":
        return False
    return constant.elements == 1 or constant.shape == (constant.elements,) == out.shape[-1:]


def _fold(tensors: dict[str, Tensor], wide: dict[str, NDArray[np.float64]], op: Op, kind: str, values: NDArray[Any]) -> None:
    """Change the weights and the bias of a layer so that it computes what the op after it did; each layer has its own."""
    weights, bias = op.inputs[1] or "", op.inputs[BIAS[op.kind]] or ""
    for name in (weights, bias):
        if name not in wide:
            wide[name] = np.asarray(tensors[name].data, np.float64)
    channels = np.broadcast_to(values.ravel(), wide[bias].shape)
    if kind == "mul":
        shape = [1] * wide[weights].ndim
        shape[CHANNELS.get(op.kind, 0)] = -1
        wide[weights] = wide[weights] * channels.reshape(shape)
        wide[bias] = wide[bias] * channels
    else:
        wide[bias] = wide[bias] + (channels if kind == "add" else -channels)


def _needed(graph: Graph) -> Graph:
    """Return the graph without the ops that no output needs."""
    needed, ops = set(graph.outputs), []
    for op in reversed(graph.ops):
        if needed & set(op.outputs):
            ops.append(op)
            needed.update(name for name in op.inputs if name is not None)
    return rebuild(graph, ops=tuple(reversed(ops)), init=tuple(op for op in graph.init if op.outputs[0] in needed))
