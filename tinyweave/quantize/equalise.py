"""Equalise channels between two weighted ops, so that one scale suits all channels of the map between them.

Sources: Nagel et al., Data-Free Quantization Through Weight Equalization and Bias Correction (2019). The trade-off between a
map's channels and the weights that read them is from SmoothQuant (Xiao et al., 2023).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from ..ir import Graph, Op
from ..ops import SPECS
from ..passes.rewrite import constant, exchange, is_only_for, maker
from .convert import along
from .evaluate import Array, visit_all
from .simplify_float import with_weights

HOMOGENEOUS = ("none", "relu")  # activations f with f(a x) = a f(x) for a > 0
MOST_FACTOR = 64.0  # largest factor by which a channel is scaled up or down


def equalised(graph: Graph, inputs: Mapping[str, Array]) -> Graph:
    """Return an equivalent float graph with equalised channels; `inputs` are real samples, from which ranges are measured.

    A channel is divided by a factor, and the weights that read it are multiplied by it: proportional to sqrt(largest magnitude
    / largest weight that reads the channel), or, for a depthwise reader with its own scale per channel, to the largest
    magnitude. The geometric mean of a map's factors is 1 before each is clipped to 1 / MOST_FACTOR .. MOST_FACTOR.
    """
    pairs = list(_pairs(graph))
    largest = _largest(graph, inputs, {graph.output(first).name for first, _ in pairs}) if pairs else {}
    for first, second in pairs:
        by_name = {op.name: op for op in graph.ops}
        graph = _rescaled(graph, by_name[first.name], by_name[second.name], largest)
    return graph


def _pairs(graph: Graph) -> Iterator[tuple[Op, Op]]:
    """Yield pairs of weighted ops with only a positively homogeneous activation between, and no other reader."""
    for second in graph.ops:
        if not SPECS[second.kind].sums_windows:
            continue
        tensor = graph.input(second)
        first = maker(graph, tensor)
        if first is None or not is_only_for(graph, tensor, second):
            continue
        layer = SPECS[first.kind].weights
        if layer is None or first.attrs["activation"] not in HOMOGENEOUS:
            continue
        bias = graph.optional_input(first, layer.bias)
        own = [op.inputs[1] or "" for op in (first, second)] + ([bias.name] if bias is not None else [])
        is_aligned = tensor.shape[-1] == graph.input(first, 1).shape[layer.axis]
        is_whole = second.kind == "depthwise_conv_2d" or graph.input(second, 1).shape[-1] == tensor.shape[-1]
        if is_aligned and is_whole and all(len(graph.consumers[name]) == 1 for name in own):
            yield first, second


def _largest(graph: Graph, inputs: Mapping[str, Array], names: set[str]) -> dict[str, Array]:
    """Return the largest magnitude of each channel of the maps `names` over all samples, by map name."""
    found: dict[str, Array] = {}

    def see(name: str, values: Array) -> Array:
        if name in names:
            found[name] = np.maximum(found.get(name, 0), np.abs(values).max(axis=tuple(range(values.ndim - 1))))
        return values

    for _ in visit_all(graph, inputs, see):
        pass
    return found


def _rescaled(graph: Graph, first: Op, second: Op, largest: Mapping[str, Array]) -> Graph:
    layer, values = SPECS[first.kind].weights, largest[graph.output(first).name].astype(np.float64)
    weights, reader = graph.input(first, 1), graph.input(second, 1)
    assert layer is not None and weights.data is not None and reader.data is not None
    bias = graph.optional_input(first, layer.bias)
    channels, axis, factor = len(values), reader.data.ndim - 1, values
    if second.kind != "depthwise_conv_2d":
        weight = np.abs(reader.data.astype(np.float64)).max(axis=tuple(range(axis)))
        factor = np.sqrt(values / np.maximum(weight, 1e-12))
    repeated = np.repeat(np.arange(channels), reader.shape[axis] // channels)
    alive = factor > 0
    if not alive.any():
        return graph
    relative = np.where(alive, factor / np.exp(np.log(factor[alive]).mean()), 1.0)
    factor = np.clip(relative, 1 / MOST_FACTOR, MOST_FACTOR)
    summand = np.zeros(channels) if bias is None or bias.data is None else bias.data.astype(np.float64)
    divided = {"weights": weights.data / along(factor, layer.axis, weights.data.ndim), "bias": summand / factor}
    new = [constant(graph, first, role, values.astype(np.float32)) for role, values in divided.items()]
    multiplied = reader.data * along(factor[repeated], axis, reader.data.ndim)
    later = constant(graph, second, "weights", multiplied.astype(np.float32))
    changed = replace(second, inputs=(second.inputs[0], later.name, *second.inputs[2:]))
    return exchange(graph, [with_weights(first, *new), changed], [*new, later])
