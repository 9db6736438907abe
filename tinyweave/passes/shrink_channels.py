"""Remove channels that are constant or never read, through the whole network.

A constant channel of value c adds weight * (c - zero point) to each sum that reads it, which is added to the bias, unless some
outputs read padding in its place. The filters of removed channels go, too, and channels that only these read. Ops whose
channels depend on each other keep all, and so do inputs, outputs and state.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op, Quant, Tensor, rebuild
from ..ops import SPECS, conv, reduce, spec_of
from ..ops.data_movement import permutation, pieces
from ..ops.fixed_point import INT32_MAX
from ..ops.layout import concatenation_axis, paddings
from .rewrite import constant, part
from .tensor_map import TensorMap
from .value_ranges import Range, channels, taps, value_ranges

REACH = 255  # largest distance of an int8 value from its zero point
Mask = NDArray[np.bool_]
Indices = NDArray[np.int64]


class Link(NamedTuple):
    """Channels that stay or go together: `source[k]` of input number `operand` with `target[k]` of the output."""

    operand: int
    source: Indices
    target: Indices


def shrink_channels(graph: Graph) -> tuple[Graph, TensorMap]:
    """Remove the channels of an int8 graph that are constant or never read."""
    known = value_ranges(graph)
    return with_channels(graph, _needed(graph, known), known)


def with_channels(graph: Graph, needed: dict[str, Mask], known: dict[str, Range]) -> tuple[Graph, TensorMap]:
    """Return the graph with only the needed channels of its activations, and the TensorMap of the remaining channels.

    `needed` has masks, equal for linked channels (`links_of`). `known` has the value ranges of an int8 graph, to add the shares
    of removed constant channels to biases; empty for a float graph, whose removed channels contribute nothing.
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
    """Return activation -> mask of the channels that must stay, grown from the outputs until no op needs another."""
    names = [t.name for t in graph.tensors.values() if t.data is None and t.role == "activation" and t.elements > 0]
    needed = {name: np.zeros(channels(graph.tensors[name]), bool) for name in names}
    pinned = {*graph.inputs, *graph.outputs}
    known_ops = [op if _is_known(graph, op, needed) else None for op in graph.ops]
    rules = [links_of(graph, op) if op else None for op in known_ops]
    reads = [_reads(graph, op, known) if op and _is_sum(op) else None for op in known_ops]
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
                if SPECS[op.kind].family == "pad" and target.any() and not source.any():
                    source[0] = True  # a pad needs an input of at least one channel
                np.logical_or.at(target, link.target, source[link.source])
            if read is not None and target.any():
                source = needed[op.inputs[0] or ""]
                source |= read[target].any(axis=0)
                source[0] |= not source.any()  # a sum needs at least one channel to read
        if before == sum(int(mask.sum()) for mask in needed.values()):
            return needed


def _is_known(graph: Graph, op: Op, needed: dict[str, Mask]) -> bool:
    """Return whether channels can be removed from all activations of the op; `needed` has the activations that may shrink."""
    variable = [t.name for t in graph.inputs_of(op) if t is not None and t.data is None]
    if not needed.keys() >= {*variable, *op.outputs}:
        return False
    return _is_elementwise(op) or (graph.input(op).data is None and (not _is_sum(op) or graph.input(op).dtype == "int8"))


def _reads(graph: Graph, op: Op, known: dict[str, Range]) -> Mask | None:
    """Return a mask [output channel, input channel] of the inputs that each sum needs and a bias cannot replace; None: all."""
    x = graph.input(op)
    if not is_dense(graph, op):
        return None
    weights, reads, always, never = taps(graph, op)
    fixed = known[x.name].constant & _fits(graph, op, weights)
    free = never[..., None] | (always[..., None] & fixed) | (fixed & (known[x.name].low == x.zero_point))
    used = ((weights != 0) & ~free[None, :, :, reads[0]]).any(axis=(1, 2))
    return np.asarray(used.reshape(len(weights), -1, channels(x)).any(axis=1))


def is_dense(graph: Graph, op: Op) -> bool:
    """Return whether each output channel of an op is a sum over all input channels in order, perhaps repeated (flattened)."""
    if op.kind == "fully_connected":
        return bool(graph.input(op).shape) and graph.input(op, 1).shape[1] % channels(graph.input(op)) == 0
    return op.kind == "conv_2d" and conv.groups(graph, op) == 1


def _fits(graph: Graph, op: Op, weights: Indices) -> bool:
    """Return whether bias plus any sum of products fits int32; if not, no product may move into the bias."""
    bias = graph.optional_input(op, 2)
    start = 0 if bias is None or bias.data is None else np.abs(bias.data.astype(np.int64))
    return bool((start + np.abs(weights).sum(axis=(1, 2, 3)) * REACH <= INT32_MAX).all())


def _activations(graph: Graph, op: Op) -> list[tuple[int, Tensor]]:
    return [(i, t) for i, t in enumerate(graph.inputs_of(op)) if t is not None and t.data is None]


def _rewritten(graph: Graph, op: Op, needed: dict[str, Mask], known: dict[str, Range]) -> tuple[Op, list[Tensor]]:
    """Return the op without removed channels, and its new constants; arguments as for `with_channels`."""

    def mask(name: str | None) -> Mask:
        return needed[name] if name in needed else np.ones(0, bool)

    source, target = mask(op.inputs[0] if op.inputs else None), mask(op.outputs[0] if op.outputs else None)
    if all(mask(name).all() for name in (*op.inputs, *op.outputs)):
        return op, []
    if _is_sum(op):
        return _rewritten_sum(graph, op, source, target, known)
    if SPECS[op.kind].family == "view":
        return replace(op, kind="reshape", inputs=op.inputs[:1], attrs={"new_shape": None}), []
    if SPECS[op.kind].family == "pad":
        pairs = np.array(paddings(graph, op), np.int32)
        before, count = int(pairs[-1][0]), len(source)
        pairs[-1] = target[:before].sum(), target[before + count :].sum()
        operand = constant(graph, op, "paddings", pairs)
        return replace(op, inputs=(op.inputs[0], operand.name, *op.inputs[2:])), [operand]
    if op.kind == "concatenation":
        return replace(op, inputs=tuple(name for name in op.inputs if mask(name).any())), []
    if not _is_elementwise(op) and op.kind != "depthwise_conv_2d":
        return op, []
    roles = ("input", "weights", "bias") if op.kind == "depthwise_conv_2d" else ("operand_0", "operand_1")
    cut = {
        t.name: _cut(graph, op, role, t, target)
        for t, role in zip(graph.inputs_of(op), roles, strict=False)
        if t is not None and t.data is not None and channels(t) == len(target)
    }
    return replace(op, inputs=tuple(cut[n].name if n in cut else n for n in op.inputs)), list(cut.values())


def _rewritten_sum(graph: Graph, op: Op, source: Mask, target: Mask, known: dict[str, Range]) -> tuple[Op, list[Tensor]]:
    """Return a layer without channels outside the masks `source` (input) and `target` (output), and its new constants."""
    x, weights, bias = graph.input(op), graph.input(op, 1), graph.optional_input(op, 2)
    assert weights.data is not None
    left = weights.data[target][..., np.tile(source, weights.shape[-1] // len(source))]
    if weights.quant is None:  # float: removed channels contribute nothing
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
    """Return a new constant with only the channels of `mask`, along the last axis; `role` is part of its name."""
    assert tensor.data is not None
    quant = tensor.quant and _picked(tensor.quant, mask, len(tensor.shape) - 1)
    return part(graph, op, role, replace(tensor, quant=quant), tensor.data[..., mask])


def _picked(quant: Quant, mask: Mask, axis: int) -> Quant:
    """Return the quantisation that a tensor has after only the indices of `mask` along `axis` are kept."""
    if quant.axis != axis:
        return quant
    picked = np.flatnonzero(mask)
    return Quant(tuple(quant.scale[i] for i in picked), tuple(quant.zero_point[i] for i in picked), axis)


def links_of(graph: Graph, op: Op) -> list[Link] | None:
    """Return which channels of an op's activations must be removed together, None if none can; constants are cut to match."""
    spec, activations = spec_of(op), _activations(graph, op)
    if op.kind == "concatenation" and len(activations) < len(op.inputs):
        return None
    if op.kind == "concatenation" and concatenation_axis(graph, op) == len(graph.output(op).shape) - 1:
        counts = [channels(tensor) for _, tensor in activations]
        return [Link(i, np.arange(count), np.arange(count) + sum(counts[:i])) for i, count in enumerate(counts)]
    if op.kind == "depthwise_conv_2d":
        every = np.arange(channels(graph.output(op)))
        return [Link(i, every * channels(t) // len(every), every) for i, t in activations]
    if op.kind == "transpose" or spec.family == "reduction":
        last = len(graph.input(op).shape) - 1
        moved = last in reduce.axes(graph, op) if op.kind != "transpose" else last not in permutation(graph, op)[-1:]
        return _links_one_to_one(graph, op) if last >= 0 and not moved else None
    if spec.family == "view":  # if the last axes differ, the channels of the shorter one repeat along the longer one
        x, out = channels(graph.input(op)), channels(graph.output(op))
        if not graph.output(op).shape or max(x, out) % min(x, out):
            return None
        every = np.arange(max(x, out))
        return [Link(i, every % x, every % out) for i, _ in activations]
    if spec.family == "pad":
        every = np.arange(channels(graph.input(op)))
        return [Link(0, every, every + paddings(graph, op)[-1][0])]
    if spec.family == "copy" and spec.channelwise:  # channels are linked only if the op copies whole pixels
        count, (*elsewhere, last_axis) = channels(graph.input(op)), pieces(graph, op)[0]
        whole = np.array_equal(last_axis, np.arange(count)) and not any((a[a >= 0] % count).any() for a in elsewhere)
        return [Link(0, last_axis, last_axis)] if whole else None
    return _links_one_to_one(graph, op) if spec.channelwise or op.kind == "concatenation" else None


def _links_one_to_one(graph: Graph, op: Op) -> list[Link] | None:
    """Link channel i of the output to channel i of every activation that the op reads; None if their channel counts differ."""
    count, activations = channels(graph.output(op)), _activations(graph, op)
    every = np.arange(count)
    return [Link(i, every, every) for i, _ in activations] if all(channels(t) == count for _, t in activations) else None


def _is_sum(op: Op) -> bool:
    """Return whether each output channel of an op is a sum over its input channels."""
    return spec_of(op).sums_windows and not spec_of(op).channelwise


def _is_elementwise(op: Op) -> bool:
    return spec_of(op).channelwise and spec_of(op).family in ("unary", "binary", "conversion")
