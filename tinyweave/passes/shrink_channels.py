"""Channels that are constant, or that nobody reads, are removed through the whole network.

A constant channel of value c adds weight * (c - zero point) to each sum that reads it: that goes into the bias, exactly, unless
padding is seen where the channel would not. Then the filters that make removed channels go, and with them what only these read.
Ops that cannot tell channels apart, and the network's inputs, outputs and state, keep all channels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op, Quant, Tensor, rebuild
from ..ops import conv, reduce
from ..ops.data_movement import permutation, pieces
from ..ops.fixed_point import INT32_MAX
from ..ops.layout import concatenation_axis, paddings
from .ranges import Range, channels, ranges, taps
from .rewrite import constant, part
from .tensor_map import TensorMap

REACH = 255  # of an int8 value less its zero point
Mask = NDArray[np.bool_]
Indices = NDArray[np.int64]


class Link(NamedTuple):
    """Channel `source[k]` of input number `operand` stays exactly when channel `target[k]` of the output does."""

    operand: int
    source: Indices
    target: Indices


def shrink_channels(graph: Graph) -> tuple[Graph, TensorMap]:
    known = ranges(graph)
    return with_channels(graph, _needed(graph, known), known)


def with_channels(graph: Graph, needed: dict[str, Mask], known: dict[str, Range]) -> tuple[Graph, TensorMap]:
    """Return the graph with those channels of its activations that are needed, which must suit `LINKS`, and where they were.

    known: of an int8 graph the ranges of all tensors: the bias holds the share of constant channels that go.
    """
    tensors = dict(graph.tensors)
    changed: TensorMap = {}
    for name, mask in needed.items():
        if not mask.all():
            tensor = tensors[name]
            tensors[name] = replace(tensor, shape=(*tensor.shape[:-1], int(mask.sum())))
            changed[name] = (name, tuple(int(channel) for channel in np.flatnonzero(mask)))
    if not changed:
        return graph, {}
    ops: list[Op] = []
    for op in graph.ops:
        if not op.outputs or any(name not in needed or needed[name].any() for name in op.outputs):
            op, constants = _rewritten(graph, op, needed, known)
            ops.append(op)
            tensors.update((tensor.name, tensor) for tensor in constants)
    shrunk = rebuild(graph, tensors=tensors, ops=tuple(ops))
    return shrunk, {name: source for name, source in changed.items() if name in shrunk.tensors}


def _needed(graph: Graph, known: dict[str, Range]) -> dict[str, Mask]:
    """Return activation -> which channels stay: the fixed point of what every op needs of its inputs to make what stays."""
    names = [t.name for t in graph.tensors.values() if t.data is None and t.role == "activation" and t.elements > 0]
    needed = {name: np.zeros(channels(graph.tensors[name]), bool) for name in names}
    pinned = {*graph.inputs, *graph.outputs}
    known_ops = [op if _is_known(graph, op, needed) else None for op in graph.ops]
    rules = [LINKS[op.kind](graph, op) if op and op.kind in LINKS else None for op in known_ops]
    reads = [_reads(graph, op, known) if op and op.kind in SUMS else None for op in known_ops]
    for op, links, read in zip(graph.ops, rules, reads, strict=True):
        if links is None and read is None:
            pinned.update(name for name in (*op.inputs, *op.outputs) if name is not None)
    pinned.update(name for op in graph.init for name in (*op.inputs, *op.outputs) if name is not None)
    pinned.update(name for name in names if (quant := graph.tensors[name].quant) is not None and quant.per_channel)
    for name in pinned & needed.keys():
        needed[name][:] = True
    while True:
        before = sum(int(mask.sum()) for mask in needed.values())
        for op, links, read in zip(reversed(graph.ops), reversed(rules), reversed(reads), strict=True):
            target = needed.get(op.outputs[0]) if op.outputs else None
            if target is None:
                continue
            for link in links or ():
                source = needed[op.inputs[link.operand] or ""]
                np.logical_or.at(source, link.source, target[link.target])
                source[0] |= op.kind in PADS and target.any() and not source.any()  # a pad needs something to be around
                np.logical_or.at(target, link.target, source[link.source])
            if read is not None and target.any():
                source = needed[op.inputs[0] or ""]
                source |= read[target].any(axis=0)
                source[0] |= not source.any()  # a sum needs something to be a sum of
        if before == sum(int(mask.sum()) for mask in needed.values()):
            return needed


def _is_known(graph: Graph, op: Op, needed: dict[str, Mask]) -> bool:
    """Return whether channels can be removed from the op's tensors at all: it has a rule, and works on activations."""
    variable = [t.name for t in graph.inputs_of(op) if t is not None and t.data is None]
    if op.kind not in (*SUMS, *LINKS) or not needed.keys() >= {*variable, *op.outputs}:
        return False
    return op.kind in ELEMENTWISE or (graph.input(op).data is None and (op.kind not in SUMS or graph.input(op).dtype == "int8"))


def _reads(graph: Graph, op: Op, known: dict[str, Range]) -> Mask | None:
    """[output channel, input channel] of a sum: whether it must read the channel; None where channels cannot be removed."""
    x = graph.input(op)
    if not _is_dense(graph, op):
        return None
    weights, reads, always, never = taps(graph, op)
    fixed = known[x.name].constant & _fits(graph, op, weights)
    free = never[..., None] | (always[..., None] & fixed) | (fixed & (known[x.name].low == x.zero_point))
    used = ((weights != 0) & ~free[None, :, :, reads[0]]).any(axis=(1, 2))
    return np.asarray(used.reshape(len(weights), -1, channels(x)).any(axis=1))


def _is_dense(graph: Graph, op: Op) -> bool:
    """Return whether every output channel reads every input channel, in order, once or several times over."""
    if op.kind == "conv_2d":
        return conv.groups(graph, op) == 1
    return graph.input(op, 1).shape[1] % channels(graph.input(op)) == 0


def _fits(graph: Graph, op: Op, weights: Indices) -> bool:
    """Return whether no part of any sum can leave int32, whichever products the bias takes over."""
    bias = graph.optional_input(op, 2)
    start = 0 if bias is None or bias.data is None else np.abs(bias.data.astype(np.int64))
    return bool((start + np.abs(weights).sum(axis=(1, 2, 3)) * REACH <= INT32_MAX).all())


def _links_alike(graph: Graph, op: Op) -> list[Link] | None:
    """Channel i of the output is made of channel i of every operand; constant operands are cut to match."""
    count = channels(graph.output(op))
    alike = all(channels(t) == count for t in graph.inputs_of(op) if t is not None and t.data is None)
    every = np.arange(count)
    return [Link(i, every, every) for i, _ in _activations(graph, op)] if alike else None


def _links_of_last(graph: Graph, op: Op) -> list[Link] | None:
    """Where the last axis stays the last."""
    last = len(graph.input(op).shape) - 1
    moved = last in reduce.axes(graph, op) if op.kind == "mean" else last not in permutation(graph, op)[-1:]
    return _links_alike(graph, op) if last >= 0 and not moved else None


def _links_view(graph: Graph, op: Op) -> list[Link] | None:
    """Merging or splitting axes before the last, the last included: the shorter last axis repeats along the longer."""
    x, out = channels(graph.input(op)), channels(graph.output(op))
    if not graph.output(op).shape or max(x, out) % min(x, out):
        return None
    every = np.arange(max(x, out))
    return [Link(i, every % x, every % out) for i, _ in _activations(graph, op)]


def _links_pad(graph: Graph, op: Op) -> list[Link] | None:
    every = np.arange(channels(graph.input(op)))
    return [Link(0, every, every + paddings(graph, op)[-1][0])]


def _links_concatenation(graph: Graph, op: Op) -> list[Link] | None:
    if len(_activations(graph, op)) < len(op.inputs):
        return None
    counts = [channels(graph.input(op, i)) for i in range(len(op.inputs))]
    if concatenation_axis(graph, op) < len(graph.output(op).shape) - 1:
        return _links_alike(graph, op)
    return [Link(i, np.arange(count), np.arange(count) + sum(counts[:i])) for i, count in enumerate(counts)]


def _links_piece(graph: Graph, op: Op) -> list[Link] | None:
    """Copies of whole pixels, from wherever they are."""
    count, (*elsewhere, last) = channels(graph.input(op)), pieces(graph, op)[0]
    whole = np.array_equal(last, np.arange(count)) and not any((axis[axis >= 0] % count).any() for axis in elsewhere)
    return [Link(0, last, last)] if whole else None


def _links_depthwise(graph: Graph, op: Op) -> list[Link] | None:
    every = np.arange(channels(graph.output(op)))
    return [Link(i, every * channels(t) // len(every), every) for i, t in _activations(graph, op)]


def _activations(graph: Graph, op: Op) -> list[tuple[int, Tensor]]:
    return [(i, t) for i, t in enumerate(graph.inputs_of(op)) if t is not None and t.data is None]


def _rewritten(graph: Graph, op: Op, needed: dict[str, Mask], known: dict[str, Range]) -> tuple[Op, list[Tensor]]:
    """Return the op on what is left of its tensors, and the constants that it reads now."""

    def mask(name: str | None) -> Mask:
        return needed[name] if name in needed else np.ones(0, bool)

    source, target = mask(op.inputs[0] if op.inputs else None), mask(op.outputs[0] if op.outputs else None)
    if all(mask(name).all() for name in (*op.inputs, *op.outputs)):
        return op, []
    if op.kind in SUMS:
        return _rewritten_sum(graph, op, source, target, known)
    if op.kind in VIEWS:
        return replace(op, kind="reshape", inputs=op.inputs[:1], attrs={"new_shape": None}), []
    if op.kind in PADS:
        pairs = np.array(paddings(graph, op), np.int32)
        before, count = int(pairs[-1][0]), len(source)
        pairs[-1] = target[:before].sum(), target[before + count :].sum()
        operand = constant(graph, op, "paddings", pairs)
        return replace(op, inputs=(op.inputs[0], operand.name, *op.inputs[2:])), [operand]
    if op.kind == "concatenation":
        return replace(op, inputs=tuple(name for name in op.inputs if mask(name).any())), []
    if op.kind not in (*ELEMENTWISE, "depthwise_conv_2d"):
        return op, []
    roles = ("input", "weights", "bias") if op.kind == "depthwise_conv_2d" else ("operand_0", "operand_1")
    cut = {
        t.name: _cut(graph, op, role, t, target)
        for t, role in zip(graph.inputs_of(op), roles, strict=False)
        if t is not None and t.data is not None and channels(t) == len(target)
    }
    return replace(op, inputs=tuple(cut[n].name if n in cut else n for n in op.inputs)), list(cut.values())


def _rewritten_sum(graph: Graph, op: Op, source: Mask, target: Mask, known: dict[str, Range]) -> tuple[Op, list[Tensor]]:
    """Filters without the channels that are gone, whose share the bias holds now."""
    x, weights, bias = graph.input(op), graph.input(op, 1), graph.optional_input(op, 2)
    assert weights.data is not None
    left = weights.data[target][..., np.tile(source, weights.shape[-1] // len(source))]
    if weights.quant is None:  # floats: what goes is not there any more
        cut = [part(graph, op, "weights", weights, left), *([_cut(graph, op, "bias", bias, target)] if bias else [])]
        return replace(op, inputs=(x.name, *(t.name for t in cut))), cut
    products, reads, always, _ = taps(graph, op)
    gone = (~source)[reads] & known[x.name].constant[reads]
    level = np.where(gone, known[x.name].low.astype(np.int64)[reads] - x.zero_point, 0)
    share = (products * always[None, :, :, None] * level[:, None, None, :]).sum(axis=(1, 2, 3))
    total = share if bias is None or bias.data is None else share + bias.data
    scales = _picked(weights.quant, target, 0)
    constants = [part(graph, op, "weights", replace(weights, quant=scales), left)]
    if bias is not None or share[target].any():
        combined = Quant(tuple(float(np.float32(x.scale * s)) for s in scales.scale), scales.zero_point, scales.axis)
        quant = combined if bias is None else bias.quant and _picked(bias.quant, target, 0)
        constants.append(constant(graph, op, "bias", total[target].astype(np.int32), quant))
    return replace(op, inputs=(x.name, *(t.name for t in constants), *[None][: 2 - len(constants)])), constants


def _cut(graph: Graph, op: Op, role: str, tensor: Tensor, mask: Mask) -> Tensor:
    """Return a constant with the channels of `mask`, along its last axis."""
    assert tensor.data is not None
    quant = tensor.quant and _picked(tensor.quant, mask, len(tensor.shape) - 1)
    return part(graph, op, role, replace(tensor, quant=quant), tensor.data[..., mask])


def _picked(quant: Quant, mask: Mask, axis: int) -> Quant:
    """Return the quantisation of what `mask` leaves along `axis`."""
    if quant.axis != axis:
        return quant
    picked = np.flatnonzero(mask)
    return Quant(tuple(quant.scale[i] for i in picked), tuple(quant.zero_point[i] for i in picked), axis)


SUMS = ("conv_2d", "fully_connected")
VIEWS = ("reshape", "squeeze", "expand_dims")
PADS = ("pad", "padv2")
CHANNELWISE = ("tile", "mirror_pad", "resize_nearest_neighbor", "space_to_batch_nd", "batch_to_space_nd")
ELEMENTWISE = ("add", "sub", "mul", "relu", "relu6", "logistic", "tanh", "quantize", "dequantize")
LINKS: dict[str, Callable[[Graph, Op], list[Link] | None]] = {
    **dict.fromkeys((*ELEMENTWISE, "average_pool_2d", "max_pool_2d"), _links_alike),
    **dict.fromkeys(VIEWS, _links_view),
    "concatenation": _links_concatenation,
    "depthwise_conv_2d": _links_depthwise,
    "mean": _links_of_last,
    **dict.fromkeys(PADS, _links_pad),
    **dict.fromkeys(CHANNELWISE, _links_piece),
    "transpose": _links_of_last,
}
