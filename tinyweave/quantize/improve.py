"""Two ways to lose less: channels that are equalised before scales are chosen, and biases that are corrected after that.

In: a float graph and samples. Out: a float graph that computes the same, or an int8 graph with other biases.
Sources: Nagel et al., Data-Free Quantization Through Weight Equalization and Bias Correction (2019); the trade between a map's
channels and the next weights as in SmoothQuant (Xiao et al., 2023).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op, Tensor
from ..ops.fixed_point import round_half_away
from ..passes.rewrite import constant, exchange, is_only_for, maker
from .calibrate import through
from .convert import along, as_real
from .evaluate import chunks, evaluate
from .prepare import with_weights
from .rules import RULES, is_number

Array = NDArray[Any]
SCALING = ("none", "relu")  # activations that leave the factor of a channel as it is
MOST_FACTOR = 64.0  # of a channel, up or down


def equalised(graph: Graph, inputs: Mapping[str, Array]) -> Graph:
    """Return the float graph with the channels between two weighted ops rescaled, so that one scale suits a map's channels.

    A channel of the map is divided by a factor, which the weights that read it are multiplied with: sqrt(greatest value /
    greatest weight), or, where a depthwise convolution reads it, whose weights have a scale per channel, its greatest value.
    """
    pairs = list(_pairs(graph))
    largest = _largest(graph, inputs, {graph.output(first).name for first, _ in pairs}) if pairs else {}
    for first, second in pairs:
        by_name = {op.name: op for op in graph.ops}
        graph = _rescaled(graph, by_name[first.name], by_name[second.name], largest)
    return graph


def _pairs(graph: Graph) -> Iterator[tuple[Op, Op]]:
    """Yield pairs of weighted ops of which the second alone reads what the first makes."""
    for second in graph.ops:
        if second.kind not in ("conv_2d", "depthwise_conv_2d", "fully_connected"):
            continue
        tensor = graph.input(second)
        first = maker(graph, tensor)
        if first is None or not is_only_for(graph, tensor, second):
            continue
        if RULES[first.kind].weights is None or first.attrs["activation"] not in SCALING:
            continue
        weights, rule = graph.input(first, 1), RULES[first.kind]
        shared = any(len(graph.consumers[op.inputs[1] or ""]) > 1 for op in (first, second))
        bias = graph.optional_input(first, rule.bias)
        fits = tensor.shape[-1] == weights.shape[rule.weights or 0] and not shared
        whole = second.kind == "depthwise_conv_2d" or graph.input(second, 1).shape[-1] == tensor.shape[-1]
        if fits and whole and (bias is None or len(graph.consumers[bias.name]) == 1):
            yield first, second


def _largest(graph: Graph, inputs: Mapping[str, Array], names: set[str]) -> dict[str, Array]:
    """Return the greatest magnitude of each channel of some maps."""
    found: dict[str, Array] = {}

    def see(name: str, values: Array) -> Array:
        if name in names:
            found[name] = np.maximum(found.get(name, 0), np.abs(values).max(axis=tuple(range(values.ndim - 1))))
        return values

    for part in chunks(graph, len(next(iter(inputs.values())))):
        evaluate(graph, {name: array[part] for name, array in inputs.items()}, visit=see)
    return found


def _rescaled(graph: Graph, first: Op, second: Op, largest: Mapping[str, Array]) -> Graph:
    rule, values = RULES[first.kind], largest[graph.output(first).name].astype(np.float64)
    weights, reader = graph.input(first, 1), graph.input(second, 1)
    bias = graph.optional_input(first, rule.bias)
    assert weights.data is not None and reader.data is not None and rule.weights is not None
    channels, axis, factor = len(values), reader.data.ndim - 1, values
    if second.kind != "depthwise_conv_2d":
        weight = np.abs(reader.data.astype(np.float64)).max(axis=tuple(range(axis)))
        factor = np.sqrt(values / np.maximum(weight, 1e-12))
    repeated = np.repeat(np.arange(channels), reader.shape[axis] // channels)
    alive = (values > 0) & (factor > 0)
    if not alive.any():
        return graph
    relative = np.where(alive, factor / np.exp(np.log(factor[alive]).mean()), 1.0)
    factor = np.clip(relative, 1 / MOST_FACTOR, MOST_FACTOR)
    summand = np.zeros(channels) if bias is None or bias.data is None else bias.data.astype(np.float64)
    made = {"weights": weights.data / along(factor, rule.weights, weights.data.ndim), "bias": summand / factor}
    new = [constant(graph, first, role, values.astype(np.float32)) for role, values in made.items()]
    read = reader.data * along(factor[repeated], axis, reader.data.ndim)
    later = constant(graph, second, "weights", read.astype(np.float32))
    changed = replace(second, inputs=(second.inputs[0], later.name, *second.inputs[2:]))
    return exchange(graph, [with_weights(first, *new), changed], [*new, later])


def corrected(real: Graph, small: Graph, inputs: Mapping[str, Array]) -> Graph:
    """Return the int8 graph with biases that bring the mean of each channel to where it is in the float one.

    Op by op in their order: what the op gives on what the int8 ops before it give is compared with the float op, before the
    activation. `inputs` are real numbers, of few samples, because all maps are kept. `real` is prepared: biases are there.
    """

    def mended(op: Op, given: Op, maps: Maps, constants: Mapping[str, Array]) -> Tensor | None:
        rule = RULES[op.kind]
        if rule.weights is None or len(small.consumers[given.inputs[rule.bias] or ""]) > 1:
            return None
        whole = exchange(real, [replace(op, attrs={**op.attrs, "activation": "none"})])
        before = evaluate(whole, maps[0], ops={op.name}, keep=True)[op.outputs[0]].astype(np.float64)
        after = evaluate(whole, maps[1], ops={op.name}, keep=True, constants=constants)[op.outputs[0]]
        shift = (before - after).mean(axis=tuple(range(before.ndim - 1)))
        bias = small.input(given, rule.bias)
        assert bias.data is not None and bias.quant is not None
        most = (1 << 31) - 1 if bias.dtype == "int32" else (1 << 46) - 2
        steps = round_half_away(shift / np.array(bias.quant.scale))
        data = np.clip(bias.data.astype(np.int64) + steps.astype(np.int64), -most - 1, most).astype(bias.data.dtype)
        return replace(bias, data=data)

    return layer_by_layer(real, small, inputs, mended)


Maps = tuple[Mapping[str, Array], Mapping[str, Array]]  # as the float graph has them; as the int8 ops before a layer give them


def layer_by_layer(
    real: Graph,
    small: Graph,
    inputs: Mapping[str, Array],
    mended: Callable[[Op, Op, Maps, Mapping[str, Array]], Tensor | None],
    done: Callable[[int], None] = lambda count: None,
) -> Graph:
    """Return the int8 graph with one constant of each layer changed, or none, in the order of the layers.

    mended: of an op, the int8 one that it became, what it reads, and its constants as real numbers: its new constant.
    """
    expected = evaluate(real, inputs, keep=True)
    computed = {name: kept(small.tensors[name], values) for name, values in inputs.items()}
    for number, (op, given) in enumerate(zip(real.ops, matching(real, small), strict=True)):
        constants = real_constants(real, small, op, given)
        if (new := mended(op, given, (expected, computed), constants)) is not None:
            small = replace(small, tensors={**small.tensors, new.name: new})
            constants = real_constants(real, small, op, given)
        found = evaluate(real, computed, ops={op.name}, keep=True, constants=constants)
        computed |= {name: kept(small.tensors[name], found[name]) for name in op.outputs}
        done(number + 1)
    return small


def kept(tensor: Tensor, values: Array) -> Array:
    """Return real numbers as a tensor of the int8 graph keeps them."""
    return through(values, tensor.quant, tensor.dtype)


def matching(real: Graph, small: Graph) -> Iterator[Op]:
    """Return for each op of the float graph the int8 one that it became."""
    by_name = {op.name: op for op in small.ops}
    return (by_name[op.name] for op in real.ops)


def real_constants(real: Graph, small: Graph, op: Op, given: Op) -> dict[str, Array]:
    """Return what the constants of an op, by their names in the float graph, became as the real numbers they stand for."""
    pairs = [(a, b) for a, b in zip(real.inputs_of(op), small.inputs_of(given), strict=False) if a is not None and is_number(a)]
    return {
        exact.name: as_shaped(as_real(became, became.data), exact.shape, op)
        for exact, became in pairs
        if became is not None and became.data is not None and became.quant is not None
    }


def as_shaped(weights: Array, shape: tuple[int, ...], op: Op) -> Array:
    """Return weights as the float op has them: `widen` makes convolutions of depthwise and of dense ops."""
    turned = weights.transpose(3, 1, 2, 0) if op.kind == "depthwise_conv_2d" and weights.shape != shape else weights
    return turned.reshape(shape)
