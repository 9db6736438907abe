"""Structured pruning: remove whole channels with the smallest weights until a network meets a RAM and a Flash limit.

Tied channels, such as those of both operands of an addition, are removed together. A step tries the eighth of each layer's
channels with the smallest L1 norm, and keeps the removal that saves most bytes, by the planner, for the lost norm. Source: Li
et al., Pruning Filters for Efficient ConvNets (2017), for the norm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ..ir import CompileError, Graph, Op, verify
from ..ops import check
from ..passes.shrink_channels import is_dense, links_of, with_channels
from ..passes.value_ranges import channels
from ..support.progress import Progress, silent
from .evaluate import Array

PARTS = 8  # a step removes 1 / PARTS of a layer's original channels
LEAST = 2  # a layer keeps at least this number of channels
Channel = tuple[str, int]  # tensor and index along its last axis


@dataclass(frozen=True)
class Footprint:
    """The bytes of RAM and of Flash that a network needs, or the limits on them."""

    ram: int
    flash: int

    def excess(self, limits: Footprint) -> float:
        """Return the sum of the relative excess over the RAM limit and over the Flash limit; 0 if both are met."""
        return max(0.0, self.ram / limits.ram - 1) + max(0.0, self.flash / limits.flash - 1)


@dataclass(frozen=True)
class PrunedLayer:
    """One or more ops whose channels were pruned together, and the number of channels before and after."""

    layers: tuple[str, ...]
    before: int
    after: int
    lost: float  # L1 norm of the removed filters, as a fraction of the norm of all filters


@dataclass(frozen=True)
class ChannelGroup:
    """The removable channels of an op, or of several ops (`makers`) that must lose channels together."""

    makers: tuple[str, ...]
    members: tuple[tuple[Channel, ...], ...]  # each member is a set of tied channels, which must be removed together
    norms: Array  # L1 norm of the filters of each member, as a fraction of the layer's norm


def channel_groups(graph: Graph) -> tuple[ChannelGroup, ...]:
    """Return the channels of a float graph that can be removed, grouped by the ops that compute them."""
    start, total = dict[str, int](), 0
    for tensor in graph.tensors.values():
        if tensor.data is None and tensor.elements:
            start[tensor.name], total = total, total + channels(tensor)
    parent = np.arange(total + 1)  # union-find over all channels; channels that must stay are joined with `total`

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
        if is_dense(graph, op):
            continue
        links = links_of(graph, op)
        for one in (*op.inputs, *op.outputs) if links is None else ():  # the op's channels depend on each other
            keep(one)
        for link in links or ():
            for a, b in zip(link.source, link.target, strict=True):
                join(start[op.inputs[link.operand] or ""] + int(a), start[op.outputs[0]] + int(b))
    tied: dict[int, list[Channel]] = {}
    for name, first in start.items():
        for channel in range(channels(graph.tensors[name])):
            tied.setdefault(root(first + channel), []).append((name, channel))
    tied.pop(root(total), None)
    return tuple(_by_makers(graph, tied.values()))


def _by_makers(graph: Graph, members: Iterable[list[Channel]]) -> Iterator[ChannelGroup]:
    makers = {op.outputs[0]: op for op in graph.ops if is_dense(graph, op)}
    norms = {name: _filter_norms(graph, op) for name, op in makers.items()}
    known: dict[tuple[str, ...], list[tuple[tuple[Channel, ...], float]]] = {}
    for member in members:
        made = [(name, index) for name, index in member if name in makers]
        if made:
            key = tuple(dict.fromkeys(makers[name].name for name, _ in made))
            known.setdefault(key, []).append((tuple(member), float(np.mean([norms[name][index] for name, index in made]))))
    for key, entries in known.items():
        yield ChannelGroup(key, tuple(member for member, _ in entries), np.array([norm for _, norm in entries]))


def _filter_norms(graph: Graph, op: Op) -> Array:
    """Return the L1 norm of each filter of an op, as a fraction of the sum of all norms."""
    weights = graph.input(op, 1)
    assert weights.data is not None
    norms = np.abs(weights.data.astype(np.float64)).reshape(len(weights.data), -1).sum(axis=1)
    return np.asarray(norms / max(norms.sum(), 1e-30))


def without_channels(graph: Graph, group: ChannelGroup, removed: Array) -> Graph:
    """Return the graph without some channels of a group; `removed` are indices into the group's members."""
    needed = {t.name: np.ones(channels(t), bool) for t in graph.tensors.values() if t.data is None and t.elements}
    for index in removed:
        for name, channel in group.members[index]:
            needed[name][channel] = False
    return check(verify(with_channels(graph, needed, {})[0]))


def pruned(
    graph: Graph, limits: Footprint, measure: Callable[[Graph], Footprint], progress: Progress = silent
) -> tuple[Graph, tuple[PrunedLayer, ...]]:
    """Remove channels of a float graph until `measure` meets the limits; return the graph, and the layers that lost some."""
    first = {group.makers: len(group.members) for group in channel_groups(graph)}
    kept = dict.fromkeys(first, 1.0)  # remaining fraction of each layer's norm
    need = measure(graph)
    initial = need.excess(limits)
    while need.excess(limits) > 0:
        tried = list[tuple[float, tuple[str, ...], float, Footprint, Graph]]()
        for group in channel_groups(graph):
            count = min(max(1, first.get(group.makers, 0) // PARTS), len(group.members) - LEAST)
            if count <= 0:
                continue
            removed = np.argsort(group.norms, kind="stable")[:count]
            smaller, lost = without_channels(graph, group, removed), float(group.norms[removed].sum())
            now = measure(smaller)
            bytes_saved = need.ram + need.flash - now.ram - now.flash  # breaks ties
            saved = (need.excess(limits) - now.excess(limits)) + 1e-6 * bytes_saved / need.flash
            tried.append((saved / max(lost, 1e-9), group.makers, lost, now, smaller))
        if not tried:
            raise CompileError(
                f"{need.ram:,} B of RAM and {need.flash:,} B of Flash are needed even with {LEAST} channels in every layer "
                "that can be pruned",
                "allow more, or give a smaller network",
            )
        _, makers, lost, need, graph = max(tried, key=lambda entry: entry[0])
        kept[makers] = kept.get(makers, 1.0) * (1 - lost)
        progress("pruning", min(int(100 * (1 - need.excess(limits) / initial)), 99), 100)
    last = {group.makers: len(group.members) for group in channel_groups(graph)}
    layers = [PrunedLayer(m, count, last[m], 1 - kept[m]) for m, count in first.items() if last.get(m, count) < count]
    return graph, tuple(layers)
