"""Make a float graph as simple as it can be before it is quantised; it computes the same but for the rounding of floats.

In: a Graph as an importer gives it. Out: a checked one in which weights are float32, layers have a bias, norms and activations
are folded as `passes.fold_float` does it, and an average over whole maps is a mean.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..ir import Graph, Op, Tensor, verify
from ..ops import check
from ..passes.fold_float import fold_float
from ..passes.rewrite import constant, each_op, exchange, integers
from .convert import dequantised
from .rules import RULES, check_rules, is_number


def prepare(graph: Graph) -> Graph:
    """Return the graph to be quantised; raise CompileError for all ops at once that have no rule, or for the first bad op."""
    graph = real_weights(graph)
    check_rules(graph)
    check(graph)
    graph = fold_float(each_op(graph, with_bias))
    return check(verify(each_op(graph, pool_to_mean)))


def real_weights(graph: Graph) -> Graph:
    """Return the graph with the integer weights of ops on floats (a dynamic-range model) as the floats they stand for."""
    tensors = dict(graph.tensors)
    for op in graph.ops:
        inputs = graph.inputs_of(op)
        if op.kind in RULES and any(is_number(t) and t.data is None for t in inputs if t is not None):
            for tensor in inputs:
                if tensor is not None and tensor.data is not None and tensor.quant is not None:
                    real = dequantised(tensor.data, tensor.quant)
                    tensors[tensor.name] = replace(tensor, dtype="float32", quant=None, data=real)
    return replace(graph, tensors=tensors)


def with_bias(graph: Graph, op: Op) -> Graph:
    """Give a weighted op a bias of its own, which is what quantisation corrects."""
    rule = RULES[op.kind]
    if rule.weights is None or graph.optional_input(op, rule.bias) is not None:
        return graph
    zeros = constant(graph, op, "bias", np.zeros(graph.output(op).shape[-1], np.float32))
    return exchange(graph, [with_weights(op, graph.input(op, 1), zeros)], [zeros])


def pool_to_mean(graph: Graph, op: Op) -> Graph:
    """Make an average over whole maps a mean, whose output may have a scale of its own: averages are smaller than values."""
    if op.kind != "average_pool_2d" or op.attrs["activation"] != "none" or any(map(any, op.attrs["padding"])):
        return graph
    if tuple(op.attrs["kernel"]) != graph.input(op).shape[1:3] or graph.output(op).shape[1:3] != (1, 1):
        return graph
    axes = integers(graph, op, "axes", [1, 2])
    return exchange(graph, [Op(op.name, "mean", (op.inputs[0], axes.name), op.outputs, {"keep_dims": True})], [axes])


def with_weights(op: Op, weights: Tensor, bias: Tensor) -> Op:
    """Return a weighted op with these constants."""
    place = RULES[op.kind].bias
    inputs = [*op.inputs, *[None] * (place + 1 - len(op.inputs))]
    inputs[1], inputs[place] = weights.name, bias.name
    return replace(op, inputs=tuple(inputs))
