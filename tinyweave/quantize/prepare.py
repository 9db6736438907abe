"""Make a float graph as simple as it can be before it is quantised; it computes the same but for the rounding of floats.

In: a Graph as an importer gives it. Out: a checked one in which weights are float32, factors and summands per channel that
follow a convolution (a batch normalisation) are part of its weights, an activation is part of the op before it, and an average
over whole maps is a mean.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op, Tensor, verify
from ..ops import check
from ..passes.rewrite import constant, each_op, exchange, integers, is_only_for, maker
from .convert import dequantised
from .rules import RULES, check_rules, is_number

ACTIVATIONS = ("relu", "relu6", "relu_n1_to_1")
FUSING = ("conv_2d", "depthwise_conv_2d", "fully_connected", "transpose_conv", "add", "sub", "mul")


def prepare(graph: Graph) -> Graph:
    """Return the graph to be quantised; raise CompileError for all ops at once that have no rule, or for the first bad op."""
    graph = real_weights(graph)
    check_rules(graph)
    check(graph)
    for rewrite in (with_bias, fold_into_weights, fuse_activation, pool_to_mean):
        graph = each_op(graph, rewrite)
    return check(verify(graph))


def real_weights(graph: Graph) -> Graph:
    """Return the graph with the integer weights of ops on floats (a dynamic-range model) as the floats they stand for."""
    tensors = dict(graph.tensors)
    for op in graph.ops:
        inputs = graph.inputs_of(op)
        if op.kind in RULES and any(is_number(t) and t.data is None for t in inputs if t is not None):
            for tensor in inputs:
                if tensor is not None and tensor.data is not None and tensor.quant is not None:
                    data = dequantised(tensor.data, tensor.quant)
                    tensors[tensor.name] = replace(tensor, dtype="float32", quant=None, data=data)
    return replace(graph, tensors=tensors)


def with_bias(graph: Graph, op: Op) -> Graph:
    """Give a weighted op a bias of its own, which is what quantisation corrects."""
    rule = RULES[op.kind]
    if rule.weights is None or graph.optional_input(op, rule.bias) is not None:
        return graph
    zeros = constant(graph, op, "bias", np.zeros(graph.output(op).shape[-1], np.float32))
    return exchange(graph, [with_weights(op, graph.input(op, 1), zeros)], [zeros])


def fold_into_weights(graph: Graph, op: Op) -> Graph:
    """Fold a multiplication by, or an addition of, a constant per channel into the weights and the bias before it."""
    if op.kind not in ("mul", "add", "sub"):
        return graph
    before = next((maker(graph, t) for t in graph.inputs_of(op) if t is not None and t.data is None), None)
    values = next((t for t in graph.inputs_of(op) if t is not None and t.data is not None), None)
    if before is None or values is None or (op.kind == "sub" and graph.input(op, 1) is not values):
        return graph
    rule, out = RULES[before.kind], graph.output(op)
    made = graph.output(before)
    if rule.weights is None or before.attrs["activation"] != "none" or not is_only_for(graph, made, op):
        return graph
    channels = made.shape[-1]
    if made.shape != out.shape or values.elements not in (1, channels) or values.shape[-1:] not in ((), (1,), (channels,)):
        return graph
    weights, bias = graph.input(before, 1), graph.optional_input(before, rule.bias)
    assert values.data is not None
    if weights.data is None:
        return graph
    change = np.broadcast_to(values.data.astype(np.float64).ravel(), (channels,))
    kernel = weights.data.astype(np.float64)
    summand = np.zeros(channels) if bias is None or bias.data is None else bias.data.astype(np.float64)
    if op.kind == "mul":
        kernel, summand = kernel * along(change, rule.weights, kernel.ndim), summand * change
    else:
        summand = summand + change if op.kind == "add" else summand - change
    new = [constant(graph, before, "folded_weights", kernel.astype(np.float32))]
    new.append(constant(graph, before, "folded_bias", summand.astype(np.float32)))
    attrs = {**before.attrs, "activation": op.attrs["activation"]}
    return exchange(graph, [replace(with_weights(before, *new), outputs=op.outputs, attrs=attrs)], new, gone=op.name)


def fuse_activation(graph: Graph, op: Op) -> Graph:
    """Make a ReLU of any kind part of the op before it, where that has none and nothing else reads what it made."""
    if op.kind not in ACTIVATIONS:
        return graph
    before = maker(graph, graph.input(op))
    if before is None or before.kind not in FUSING or before.attrs["activation"] != "none":
        return graph
    if not is_only_for(graph, graph.output(before), op):
        return graph
    attrs = {**before.attrs, "activation": op.kind}
    return exchange(graph, [replace(before, outputs=op.outputs, attrs=attrs)], gone=op.name)


def pool_to_mean(graph: Graph, op: Op) -> Graph:
    """Make an average over whole maps a mean, whose output may have a scale of its own: averages are smaller than values."""
    if op.kind != "average_pool_2d" or op.attrs["activation"] != "none":
        return graph
    if tuple(op.attrs["kernel"]) != graph.input(op).shape[1:3] or graph.output(op).shape[1:3] != (1, 1):
        return graph
    if any(before or after for before, after in op.attrs["padding"]):
        return graph
    axes = integers(graph, op, "axes", [1, 2])
    return exchange(graph, [Op(op.name, "mean", (op.inputs[0], axes.name), op.outputs, {"keep_dims": True})], [axes])


def along(values: NDArray[np.float64], axis: int, rank: int) -> NDArray[np.float64]:
    """Return one value per channel in a shape that broadcasts along an axis."""
    return values.reshape([-1 if a == axis else 1 for a in range(rank)])


def with_weights(op: Op, weights: Tensor, bias: Tensor) -> Op:
    """Return a weighted op with these constants."""
    place = RULES[op.kind].bias
    inputs = [*op.inputs, *[None] * (place + 1 - len(op.inputs))]
    inputs[1], inputs[place] = weights.name, bias.name
    return replace(op, inputs=tuple(inputs))
