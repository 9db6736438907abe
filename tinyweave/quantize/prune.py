"""Structured pruning: whole channels go, those with the least weights, until a network keeps a RAM and a Flash limit.

In: a prepared float graph, how its needs are measured. Out: a smaller float graph, and which layers lost how many channels.
Channels that must go together are one: of both sides of a sum, through pools, products and depthwise convolutions. Each step
tries every layer: what an eighth of its channels, those of least L1 norm, save of what is over the limits, as it is measured
with the planner, for the share of the layer's norm that they have; and takes the layer that saves most for least.
Source: Li et al., Pruning Filters for Efficient ConvNets (2017), for the norm; the planner's bytes in place of parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError, Graph, Op, verify
from ..ops import check, conv
from ..passes.ranges import channels
from ..passes.shrink_channels import LINKS, with_channels
from ..progress import Progress, silent

Array = NDArray[Any]
PARTS = 8  # a step takes so many parts of a layer's channels
LEAST = 2  # channels that a layer keeps
# which channels of an op's inputs are which of its output; of these kinds, too, they are the same
SAME = ("elu", "gelu", "hard_swish", "leaky_relu", "relu_n1_to_1", "resize_bilinear")
KNOWN = LINKS | dict.fromkeys(SAME, LINKS["relu"])


@dataclass(frozen=True)
class Need:
    """Bytes of RAM and of Flash."""

    ram: int
    flash: int

    def excess(self, limits: Need) -> float:
        """Return by how much the limits are exceeded, as a share of them, added up."""
        return max(0.0, self.ram / limits.ram - 1) + max(0.0, self.flash / limits.flash - 1)


@dataclass(frozen=True)
class PrunedLayer:
    """layers: the ops whose channels go together. lost: the share of their L1 norm that went."""

    layers: tuple[str, ...]
    before: int
    after: int
    lost: float


@dataclass(frozen=True)
class ChannelGroup:
    """Channels that can go, of ops that make them together: per channel (tensor, index) of all that it is, and its L1 norm."""

    makers: tuple[str, ...]
    members: tuple[tuple[tuple[str, int], ...], ...]
    norms: Array


def channel_groups(graph: Graph) -> tuple[ChannelGroup, ...]:
    """Return the channels of a float graph that can go, by the ops that make them."""
    start, total = dict[str, int](), 0
    for tensor in graph.tensors.values():
        if tensor.data is None and tensor.elements:
            start[tensor.name], total = total, total + channels(tensor)
    parent = np.arange(total + 1)  # the last one: what has to stay

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = int(parent[index])
        return index

    def join(a: int, b: int) -> None:
        low, high = sorted((root(a), root(b)))
        parent[low] = high

    def keep(name: str | None) -> None:
        if name is not None and name in start:
            for channel in range(channels(graph.tensors[name])):
                join(start[name] + channel, total)

    for name in (*graph.inputs, *graph.outputs, *(t.name for t in graph.tensors.values() if t.role == "state")):
        keep(name)
    for op in graph.ops:
        if _is_sum(graph, op):
            continue
        links = KNOWN[op.kind](graph, op) if op.kind in KNOWN else None
        for one in (*op.inputs, *op.outputs) if links is None else ():  # channels cannot be told apart
            keep(one)
        for link in links or ():
            for a, b in zip(link.source, link.target, strict=True):
                join(start[op.inputs[link.operand] or ""] + int(a), start[op.outputs[0]] + int(b))
    members: dict[int, list[tuple[str, int]]] = {}
    for name, first in start.items():
        for channel in range(channels(graph.tensors[name])):
            members.setdefault(root(first + channel), []).append((name, channel))
    members.pop(root(total), None)
    return tuple(_by_makers(graph, members))


def _by_makers(graph: Graph, members: dict[int, list[tuple[str, int]]]) -> Iterator[ChannelGroup]:
    makers = {op.outputs[0]: op for op in graph.ops if _is_sum(graph, op)}
    norms = {name: _norms(graph, op) for name, op in makers.items()}
    known: dict[tuple[str, ...], list[tuple[tuple[tuple[str, int], ...], float]]] = {}
    for channel in members.values():
        made = [(name, index) for name, index in channel if name in makers]
        if made:
            key = tuple(dict.fromkeys(makers[name].name for name, _ in made))
            known.setdefault(key, []).append((tuple(channel), float(np.mean([norms[name][index] for name, index in made]))))
    for key, entries in known.items():
        yield ChannelGroup(key, tuple(entry for entry, _ in entries), np.array([norm for _, norm in entries]))


def _norms(graph: Graph, op: Op) -> Array:
    """Return the L1 norm of each filter as a share of the layer's."""
    weights = graph.input(op, 1)
    assert weights.data is not None
    norms = np.abs(weights.data.astype(np.float64)).reshape(len(weights.data), -1).sum(axis=1)
    return np.asarray(norms / max(norms.sum(), 1e-30))


def _is_sum(graph: Graph, op: Op) -> bool:
    """Return whether each output channel of an op is a sum over all channels of its input, so that either may lose some."""
    if op.kind == "fully_connected":
        x = graph.input(op)
        return bool(x.shape) and graph.input(op, 1).shape[1] % channels(x) == 0
    return op.kind == "conv_2d" and conv.groups(graph, op) == 1


def without(graph: Graph, group: ChannelGroup, gone: Array) -> Graph:
    """Return the graph without some channels of a group, by their numbers in it."""
    needed = {t.name: np.ones(channels(t), bool) for t in graph.tensors.values() if t.data is None and t.elements}
    for number in gone:
        for name, channel in group.members[number]:
            needed[name][channel] = False
    return check(verify(with_channels(graph, needed, {})[0]))


def pruned(
    graph: Graph, limits: Need, measure: Callable[[Graph], Need], progress: Progress = silent
) -> tuple[Graph, tuple[PrunedLayer, ...]]:
    """Return the graph with channels removed until `measure` finds it within the limits, and the layers that lost some.

    Raise CompileError where that is not enough.
    """
    first = {group.makers: len(group.members) for group in channel_groups(graph)}
    kept = dict.fromkeys(first, 1.0)  # the share of its norm that a layer has left
    need = measure(graph)
    begun = need.excess(limits)
    while need.excess(limits) > 0:
        tried = list[tuple[float, tuple[str, ...], float, Need, Graph]]()
        for group in channel_groups(graph):
            count = min(max(1, first.get(group.makers, 0) // PARTS), len(group.members) - LEAST)
            if count <= 0:
                continue
            gone = np.argsort(group.norms, kind="stable")[:count]
            smaller, lost = without(graph, group, gone), float(group.norms[gone].sum())
            now = measure(smaller)
            saved = (need.excess(limits) - now.excess(limits)) + 1e-6 * (
                need.ram + need.flash - now.ram - now.flash
            ) / need.flash
            tried.append((saved / max(lost, 1e-9), group.makers, lost, now, smaller))
        if not tried:
            raise CompileError(
                f"{need.ram:,} B of RAM and {need.flash:,} B of Flash are needed with {LEAST} channels wherever they can go",
                "allow more, or give a smaller network",
            )
        _, makers, lost, need, graph = max(tried, key=lambda entry: entry[0])
        kept[makers] = kept.get(makers, 1.0) * (1 - lost)
        progress("pruning", min(int(100 * (1 - need.excess(limits) / begun)), 99), 100)
    last = {group.makers: len(group.members) for group in channel_groups(graph)}
    layers = [PrunedLayer(m, count, last[m], 1 - kept[m]) for m, count in first.items() if last.get(m, count) < count]
    return graph, tuple(layers)
