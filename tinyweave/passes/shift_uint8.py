"""Quantised uint8 tensors become int8: 128 is taken from their values and zero points, which changes no real number.

Inputs and outputs of the graph stay uint8 behind a quantize. Where LiteRT rounds uint8 otherwise than int8, the op gets the
attribute `unsigned`, which its reference and its kernel follow, and so have ops whose weights then have a zero point.
Kinds of which neither is true are refused. Tensors that only a quantize or dequantize touches stay, and networks that only
move their elements.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..ir import UNSUPPORTED, CompileError, Graph, Op, Tensor, rebuild
from .rewrite import unused
from .tensor_map import TensorMap

# these move elements, of any type
MOVES = frozenset(
    "batch_to_space_nd broadcast_to concatenation depth_to_space expand_dims gather mirror_pad pack pad padv2 reshape "
    "resize_nearest_neighbor shape slice space_to_batch_nd space_to_depth split split_v squeeze strided_slice tile transpose "
    "unpack".split()
)
# on these LiteRT gives the int8 result plus 128
SAME = MOVES | frozenset(
    "add arg_max hard_swish leaky_relu logistic max_pool_2d maximum mean minimum mul prelu reduce_max reduce_min relu relu6 "
    "relu_n1_to_1 softmax sub tanh".split()
)
WEIGHTED = frozenset(("conv_2d", "depthwise_conv_2d", "fully_connected"))
UNSIGNED = WEIGHTED | {"average_pool_2d", "resize_bilinear"}
CONVERSIONS = frozenset(("quantize", "dequantize"))  # have a uint8 form of their own


def shift_uint8(graph: Graph) -> tuple[Graph, TensorMap]:
    shifted = {
        name
        for op in graph.ops
        if op.kind not in CONVERSIONS
        for name in (*op.inputs, *op.outputs)
        if name is not None and graph.tensors[name].dtype == "uint8" and graph.tensors[name].quant is not None
    }
    if not any(op.kind not in MOVES and not shifted.isdisjoint((*op.inputs, *op.outputs)) for op in graph.ops):
        return graph, {}  # nothing computes on uint8
    tensors = {name: _shifted(tensor) if name in shifted else tensor for name, tensor in graph.tensors.items()}
    edges: dict[str, str] = {}  # uint8 edge -> the int8 tensor behind it
    for name in [name for name in dict.fromkeys((*graph.inputs, *graph.outputs)) if name in shifted]:
        edges[name] = inner = unused(f"{name}_int8", tensors)
        tensors[name], tensors[inner] = graph.tensors[name], replace(tensors[name], name=inner)
    sources: TensorMap = {inner: (name, None) for name, inner in edges.items()}

    ops = [Op(f"quantize_input_{i}", "quantize", (n,), (edges[n],)) for i, n in enumerate(graph.inputs) if n in edges]
    for op in graph.ops:
        moved = replace(
            op,
            inputs=tuple(name and edges.get(name, name) for name in op.inputs),
            outputs=tuple(edges.get(name, name) for name in op.outputs),
        )
        is_kept = op.kind in CONVERSIONS or shifted.isdisjoint((*op.inputs, *op.outputs))
        ops.append(moved if is_kept else _int8_op(op, moved, tensors))
    written = {name: i for i, name in enumerate(graph.outputs) if name in edges and name in graph.producer}
    ops += [Op(f"quantize_output_{i}", "quantize", (edges[name],), (name,)) for name, i in written.items()]
    return rebuild(graph, tensors=tensors, ops=tuple(ops)), sources


def _shifted(tensor: Tensor) -> Tensor:
    assert tensor.quant is not None
    quant = replace(tensor.quant, zero_point=tuple(zero - 128 for zero in tensor.quant.zero_point))
    data = None if tensor.data is None else (tensor.data ^ np.uint8(128)).view(np.int8)
    return replace(tensor, dtype="int8", quant=quant, data=data)


def _int8_op(op: Op, moved: Op, tensors: dict[str, Tensor]) -> Op:
    """Return the op on int8 that gives the bytes of `op` on uint8, from `moved`, which has the int8 operands."""
    if op.kind in WEIGHTED:
        moved = _centred_weights(moved, tensors)
    if op.kind in UNSIGNED:
        return replace(moved, attrs={**op.attrs, "unsigned": True})
    if op.kind in SAME or op.kind == UNSUPPORTED:
        return moved
    raise CompileError("on uint8 is not supported: it rounds otherwise than on int8", "quantise the model to int8", op=op)


def _centred_weights(op: Op, tensors: dict[str, Tensor]) -> Op:
    """With weights of zero point 0, where their distances from it fit into int8."""
    name = op.inputs[1] if len(op.inputs) > 1 else None
    weights = tensors[name] if name is not None else None
    if weights is None or weights.data is None or weights.quant is None or weights.quant.axis is not None:
        return op
    distances = weights.data.astype(np.int16) - weights.quant.zero_point[0]
    if weights.quant.zero_point[0] == 0 or distances.size == 0 or distances.min() < -128 or distances.max() > 127:
        return op
    centred = unused(f"{name}_centred", tensors)
    tensors[centred] = replace(
        weights, name=centred, data=distances.astype(np.int8), quant=replace(weights.quant, zero_point=(0,))
    )
    return replace(op, inputs=(op.inputs[0], centred, *op.inputs[2:]))
