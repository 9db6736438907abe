"""Rematerialisation: compute some channels of a map twice rather than keep them in RAM.

In a block with squeeze and excitation (arXiv 1709.01507), the widest map stays alive until the mean over its pixels has been
turned into the factor of each channel. A rematerialised channel is computed once for the mean, dropped, and computed again for
its other readers. Chen et al. (arXiv 1604.06174) do so in training. Channels are also computed in pieces, each once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from ...ir import CompileError, Graph, Op, Quant, Tensor, rebuild
from ...ops import SPECS
from ...ops.conv import groups
from ...ops.layout import paddings
from ...ops.reduce import axes


class Rematerialisable(NamedTuple):
    """The ops around a map that may be rematerialised, that is computed twice; ops are given by index."""

    makers: tuple[int, ...]  # compute the map, back to the convolutions that they begin with
    summing: tuple[int, ...]  # reduce the map to single pixels, such as a mean and the ops before it
    sums: tuple[str, ...]  # the tensors of one pixel that result
    reader: int  # the first op that reads the map and is not in `summing`


def candidates(graph: Graph) -> dict[str, Rematerialisable]:
    """Return the maps that may be rematerialised, each with the ops around it, in the order in which they are computed."""
    pairs = ((op.outputs[0], _rematerialisable(graph, op.outputs[0])) for op in graph.ops if len(op.outputs) == 1)
    return {name: rematerialised for name, rematerialised in pairs if rematerialised is not None}


def is_rematerialised(op: Op) -> bool:
    """Return whether an op computes channels for the second time. Its attribute `again` names the op of the first time."""
    return "again" in op.attrs


def with_channels_once(graph: Graph, channels_once: Mapping[str, int]) -> Graph:
    """Return a graph that computes only the first n channels of some maps (map -> n) once, and their others twice."""
    for name, count in channels_once.items():
        graph = _with_channels_once(graph, name, count)
    return graph


def reads_by_channel(graph: Graph, op: Op) -> bool:
    """Return whether `with_pieces` can compute an op: a dense layer, or a convolution without groups, of constant weights."""
    family = SPECS[op.kind].family
    if family not in ("convolution", "dense") or _channel_axis(op) != 0 or graph.input(op, 1).data is None:
        return False
    return family == "dense" or groups(graph, op) == 1


def _channel_axis(op: Op) -> int | None:
    """Return the axis of a layer's weights that has the output channels; None for an op without weights."""
    weights = SPECS[op.kind].weights
    return weights.axis if weights else None


def with_pieces(graph: Graph, pieces: Mapping[str, int]) -> Graph:
    """Return a graph that computes outputs of dense layers and convolutions (output -> n) by an op per n channels."""
    tensors, ops = dict(graph.tensors), list[Op]()
    for op in graph.ops:
        name, parts = op.outputs[0], list[str]()
        if name not in pieces:
            ops.append(op)
            continue
        channels, count = graph.tensors[name].shape[-1], pieces[name]
        if not reads_by_channel(graph, op) or not 0 < count < channels:
            raise CompileError(f"cannot be computed {count} channels at a time", "plan again", tensor=name)
        for begin in range(0, channels, count):
            part = _Channels(f"from_{begin}", begin, min(begin + count, channels), frozenset((name,)))
            ops.append(_on(graph, op, part, tensors))
            parts.append(ops[-1].outputs[0])
        ops.append(Op(f"{op.name}_joined", "concatenation", tuple(parts), (name,), {"axis": -1, "activation": "none"}))
    return rebuild(graph, tensors=tensors, ops=tuple(ops)) if pieces else graph


def _rematerialisable(graph: Graph, name: str) -> Rematerialisable | None:
    tensor, readers = graph.tensors[name], graph.consumers.get(name, ())
    if len(tensor.shape) != 4 or len(readers) < 2 or name in graph.outputs or tensor.role == "state":
        return None
    sums = {index: _summing(graph, index) for index in readers}
    others = [index for index, path in sums.items() if not path]
    summing = [index for path in sums.values() for index in path]
    makers = _makers(graph, name) if others and summing else ()
    results = tuple(graph.ops[path[-1]].outputs[0] for path in sums.values() if path)
    return Rematerialisable(makers, tuple(summing), results, min(others)) if makers else None


def _makers(graph: Graph, name: str) -> tuple[int, ...]:
    """Return the ops that compute a map channel by channel, back to the ungrouped convolutions that they begin with.

    The tuple holds indices of ops. It is empty if the map also depends on ops of other kinds or directly on a network input, or
    if an intermediate map is a network output or is read by any other op.
    """
    makers, waiting = set[int](), [name]
    while waiting:
        index = graph.producer.get(waiting.pop(), -1)
        op = graph.ops[index]
        is_first = op.kind == "conv_2d" and groups(graph, op) == 1
        if index < 0 or not (is_first or _is_channelwise(graph, op)):
            return ()
        makers.add(index)
        waiting += [] if is_first else [tensor.name for tensor in _operands(graph, op)]
    inner = {graph.ops[index].outputs[0] for index in makers} - {name}
    is_private = all(set(graph.consumers[x]) <= makers and x not in graph.outputs for x in inner)
    return tuple(sorted(makers)) if is_private else ()


def _summing(graph: Graph, index: int) -> list[int]:
    """Return the chain of channelwise ops from op `index` on that reduces a map to one pixel; [] if it has no such chain."""
    path: list[int] = []
    while True:
        path.append(index)
        op = graph.ops[index]
        if not _is_channelwise(graph, op) or len(_operands(graph, op)) > 1:
            return []
        out = graph.output(op)
        if out.elements == out.shape[-1]:
            return path
        readers = graph.consumers.get(out.name, ())
        if len(readers) != 1 or out.name in graph.outputs:
            return []
        index = readers[0]


def _operands(graph: Graph, op: Op) -> list[Tensor]:
    return [tensor for tensor in graph.inputs_of(op) if tensor is not None and tensor.data is None]


def _is_channelwise(graph: Graph, op: Op) -> bool:
    family = SPECS[op.kind].family
    if not SPECS[op.kind].channelwise or family in ("copy", "resize"):
        return False
    channels = graph.output(op).shape[-1:]
    if any(tensor.shape[-1:] != channels or tensor.role == "state" for tensor in _operands(graph, op)):
        return False
    if family == "reduction":
        return len(graph.input(op).shape) - 1 not in axes(graph, op)
    return family != "pad" or not any(paddings(graph, op)[-1])


class _Channels(NamedTuple):
    """Channels [begin, end) of a map, computed by copies of ops; copies of the tensors `own` have names with `suffix`."""

    suffix: str
    begin: int
    end: int
    own: frozenset[str]


def _with_channels_once(graph: Graph, name: str, count: int) -> Graph:
    rematerialised, channels = _rematerialisable(graph, name), (graph.tensors[name].shape or (0,))[-1]
    if rematerialised is None:
        raise CompileError("cannot be computed twice", "plan again", tensor=name)
    if not 0 <= count < channels:
        raise CompileError(f"has {channels} channels, {count} of them cannot be kept", "plan again", tensor=name)
    both = (*rematerialised.makers, *rematerialised.summing)
    own = {indices: frozenset(graph.ops[index].outputs[0] for index in indices) for indices in (rematerialised.makers, both)}
    if count:
        parts = [_Channels("kept", 0, count, own[both]), _Channels("first", count, channels, own[both])]
        second = _Channels("again", count, channels, own[rematerialised.makers])
    else:  # the second copy computes the map itself
        parts, second = [_Channels("first", 0, channels, own[rematerialised.makers])], _Channels("", 0, channels, frozenset())
    tensors, ops = dict(graph.tensors), list[Op]()
    for index, op in enumerate(graph.ops):
        if name in op.outputs:
            ops += [_on(graph, graph.ops[i], part, tensors) for part in parts for i in both]
            ops += [_joined(graph, sums, "first") for sums in rematerialised.sums if count]
        if index == rematerialised.reader:
            for original in (graph.ops[i] for i in rematerialised.makers):
                copy = _on(graph, original, second, tensors)
                ops.append(replace(copy, attrs={**original.attrs, "again": f"{original.name}_first"}))
            ops += [_joined(graph, name, "again")] if count else []
        if index not in both:
            ops.append(op)
    return rebuild(graph, tensors=tensors, ops=tuple(ops))


def _on(graph: Graph, op: Op, part: _Channels, tensors: dict[str, Tensor]) -> Op:
    """Return a copy of an op that computes only the channels `part`, or all if its output is not in `part.own`."""
    inputs, out = list[str | None](), graph.output(op)
    for x in graph.inputs_of(op):
        if x is not None and x.data is not None:
            x = _constant(graph, op, x, part)
            tensors[x.name] = x
        inputs.append(None if x is None else f"{x.name}:{part.suffix}" if x.name in part.own else x.name)
    if out.name not in part.own:
        return replace(op, inputs=tuple(inputs))
    cut = _cut(out, len(out.shape) - 1, part, f"{out.name}:{part.suffix}")
    tensors[cut.name] = cut
    return replace(op, name=f"{op.name}_{part.suffix}", inputs=tuple(inputs), outputs=(cut.name,))


def _joined(graph: Graph, name: str, rest: str) -> Op:
    """Return the op that concatenates the channels of map `name` computed once (`name:kept`) and twice (`name:rest`)."""
    op_name, parts = f"{graph.ops[graph.producer[name]].name}_joined", (f"{name}:kept", f"{name}:{rest}")
    return Op(op_name, "concatenation", parts, (name,), {"axis": -1, "activation": "none"})


def _constant(graph: Graph, op: Op, tensor: Tensor, part: _Channels) -> Tensor:
    """Return the slice of a constant input that the output channels `part` need; all of it if it is not per channel."""
    axis, channels = 0 if _channel_axis(op) == 0 else len(tensor.shape) - 1, graph.output(op).shape[-1]
    has_channels = SPECS[op.kind].family in ("convolution", "dense", "binary")
    is_whole = not has_channels or tensor.shape[axis : axis + 1] != (channels,) or part[1:3] == (0, channels)
    return tensor if is_whole else _cut(tensor, axis, part, f"{tensor.name}:{axis}:{part.begin}-{part.end}")


def _cut(tensor: Tensor, axis: int, part: _Channels, name: str) -> Tensor:
    """Return a tensor reduced to the channels [part.begin, part.end) along an axis, data and quantisation too, as `name`."""
    quant, span = tensor.quant, slice(part.begin, part.end)
    if quant is not None and quant.axis == axis:
        quant = Quant(quant.scale[span], quant.zero_point[span], axis)
    shape = (*tensor.shape[:axis], part.end - part.begin, *tensor.shape[axis + 1 :])
    data = None if tensor.data is None else tensor.data[(slice(None),) * axis + (span,)]
    return replace(tensor, name=name, shape=shape, quant=quant, data=data)
