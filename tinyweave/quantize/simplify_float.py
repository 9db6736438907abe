"""Simplify a float graph before quantisation, without changing its results except for float rounding.

Integer weights are dequantised, layers get a bias, batch normalisation and activations are folded (`passes.fold_float`), a neg
becomes a product with -1, and an average pool over a whole map becomes a mean.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..ir import Graph, Op, Tensor, verify
from ..ops import SPECS, check, spec_of
from ..passes.fold_float import fold_float
from ..passes.rewrite import constant, each_op, exchange, integers
from .convert import dequantised
from .scale_groups import check_quantisable, is_float


def simplify_float(graph: Graph) -> Graph:
    """Simplify a float graph for quantisation; raise one CompileError for all ops without a quantised form."""
    graph = each_op(float_weights(graph), _neg_to_mul)
    check_quantisable(graph)
    check(graph)
    graph = fold_float(each_op(graph, _with_bias))
    return check(verify(each_op(graph, pool_to_mean)))


def float_weights(graph: Graph) -> Graph:
    """Dequantise the integer weights of ops on float activations, as dynamic-range quantised models have them."""
    tensors = dict(graph.tensors)
    for op in graph.ops:
        inputs = graph.inputs_of(op)
        if spec_of(op).scale and any(is_float(t) and t.data is None for t in inputs if t is not None):
            for tensor in inputs:
                if tensor is not None and tensor.data is not None and tensor.quant is not None:
                    real = dequantised(tensor.data, tensor.quant)
                    tensors[tensor.name] = replace(tensor, dtype="float32", quant=None, data=real)
    return replace(graph, tensors=tensors)


def _with_bias(graph: Graph, op: Op) -> Graph:
    """Add a bias of zeros to a weighted op without one, so that bias correction can change it."""
    layer = SPECS[op.kind].weights
    if layer is None or graph.optional_input(op, layer.bias) is not None:
        return graph
    zeros = constant(graph, op, "bias", np.zeros(graph.output(op).shape[-1], np.float32))
    return exchange(graph, [with_weights(op, graph.input(op, 1), zeros)], [zeros])


def _neg_to_mul(graph: Graph, op: Op) -> Graph:
    """Replace a float neg by a product with -1, whose int8 form may have any scales."""
    if op.kind != "neg" or not is_float(graph.input(op)):
        return graph
    factor = constant(graph, op, "factor", np.array(-1, np.float32))
    return exchange(graph, [Op(op.name, "mul", (*op.inputs, factor.name), op.outputs, {"activation": "none"})], [factor])


def pool_to_mean(graph: Graph, op: Op) -> Graph:
    """Replace an average pool over a whole map by a mean, whose output may have a scale of its own: its range is smaller."""
    if op.kind != "average_pool_2d" or op.attrs["activation"] != "none" or any(map(any, op.attrs["padding"])):
        return graph
    if tuple(op.attrs["kernel"]) != graph.input(op).shape[1:3] or graph.output(op).shape[1:3] != (1, 1):
        return graph
    axes = integers(graph, op, "axes", [1, 2])
    return exchange(graph, [Op(op.name, "mean", (op.inputs[0], axes.name), op.outputs, {"keep_dims": True})], [axes])


def with_weights(op: Op, weights: Tensor, bias: Tensor) -> Op:
    """Return a weighted op that reads the constants `weights` and `bias` instead of its own."""
    layer = SPECS[op.kind].weights
    assert layer is not None
    inputs = [*op.inputs, *[None] * (layer.bias + 1 - len(op.inputs))]
    inputs[1], inputs[layer.bias] = weights.name, bias.name
    return replace(op, inputs=tuple(inputs))
