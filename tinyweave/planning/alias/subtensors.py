"""Tensors inside other tensors, so that ops that only join or cut tensors need no code.

In: a graph and the owners of its views (`overlap.views`). Out: the same, with the offsets of tensors in their owners. An output
of a split or slice aliases the input if it is one contiguous run of it. An input of a concatenation is computed directly in the
output if it is one contiguous run there and is not already aliased elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...ir import Graph, Op, itemsize
from ...kernels import copies
from ...ops import SPECS, data
from ..place.relocation_ops import is_move

ALIGN = 4  # bytes, of every tensor that a kernel reads or writes; larger elements have their own size


class Aliases(NamedTuple):
    """Which tensor owns the memory of each activation, and at which offset the activation begins in it.

    `free` are the indices of ops that need no code, because their outputs are already in place; reshapes are not listed.
    `parts` says whether all tensors may be inside others, as the argument of `with_parts`.
    """

    owner: dict[str, str]  # activation -> the tensor that owns its memory
    offset: dict[str, int]  # activation -> where it begins in its owner, if not at 0
    free: frozenset[int]  # indices of ops, other than reshapes, that need no code
    parts: bool = False


def with_parts(graph: Graph, owner: Mapping[str, str], order: Sequence[int], *, parts: bool = True) -> Aliases:
    """Return which tensors share memory if outputs of splits are placed inside their input, to save copies.

    Outputs of splits and slices become part of their input, then inputs of concatenations and other joins part of their output.
    Splits are treated in order, joins from last to first, since the input of a join may itself be joined. Without `parts`, only
    the rows of a streamed window may be inside another tensor, their state.
    """
    shared, free = Aliases(dict(owner), {}, frozenset()), set[int]()
    for index in order:
        op = graph.ops[index]
        starts = _cut(graph, op, shared) if SPECS[op.kind].cuts and parts else []
        for name, start in zip(op.outputs, starts, strict=bool(starts)):
            _put_inside(shared, name, data(graph, op).name, start)
            free.add(index)
    for index in reversed(order):
        op = graph.ops[index]
        is_join = SPECS[op.kind].family == "join" and (parts or _is_lone_shift(graph, op, shared))
        if is_join and (starts := _joined(graph, op, shared, order)):
            for tensor, start in zip(graph.inputs_of(op), starts, strict=True):
                assert tensor is not None
                _put_inside(shared, shared.owner[tensor.name], op.outputs[0], start)
            free.add(index)
    return shared._replace(free=frozenset(free), parts=parts)


def _put_inside(shared: Aliases, root: str, home: str, start: int) -> None:
    """Move `root`, with all tensors that share its memory, to `start` bytes after the start of `home`."""
    begin = shared.offset.get(home, 0) + start
    for name in [name for name, other in shared.owner.items() if other == root]:
        shared.owner[name] = shared.owner[home]
        shared.offset[name] = shared.offset.get(name, 0) + begin


def _cut(graph: Graph, op: Op, shared: Aliases) -> list[int]:
    """Return, for each output of a split or slice, its first byte in the input; [] if the outputs cannot alias the input."""
    source, runs = data(graph, op), copies.moved(graph, op)
    if runs is None or len(runs) != len(op.outputs) or source.data is not None:
        return []
    if graph.tensors[shared.owner[source.name]].role == "state":  # which may change while an output is still needed
        return []
    starts = []
    for name, run in zip(op.outputs, runs, strict=True):
        out = graph.tensors[name]
        if run.size != (1, 1, 1, 1) or shared.owner[name] != name or not _aligned(out.dtype, run.start):
            return []
        starts.append(run.start)
    return starts


def _joined(graph: Graph, op: Op, shared: Aliases, order: Sequence[int]) -> list[int]:
    """Return, for each input of a concatenation, its first byte in the output; [] if the inputs cannot be computed there."""
    out = graph.output(op)
    axis = op.attrs["axis"] % len(out.shape)
    if any(extent > 1 for extent in out.shape[:axis]):
        return []
    if graph.tensors[shared.owner[out.name]].role == "state" and not _moves_down(graph, op, shared, order):
        return []
    starts, roots, begin = [], set[str](), 0
    for tensor in graph.inputs_of(op):
        if tensor is None or tensor.data is not None or not tensor.bytes:
            return []
        root = shared.owner[tensor.name]
        maker = graph.producer.get(root)
        whole = not shared.offset.get(tensor.name) and graph.tensors[root].bytes == tensor.bytes
        if root in roots or maker is None or not whole or not _aligned(tensor.dtype, begin):
            return []
        if graph.tensors[root].role == "state" or root in graph.inputs or is_move(graph.ops[maker]):
            return []
        starts.append(begin)
        roots.add(root)
        begin += tensor.bytes
    return starts


def _is_lone_shift(graph: Graph, op: Op, shared: Aliases) -> bool:
    """Return whether a concatenation writes to a state whose other rows no op reads, so that no fused stage has both."""
    return graph.tensors[shared.owner[op.outputs[0]]].role == "state" and len(graph.consumers[op.inputs[0] or ""]) == 1


def _moves_down(graph: Graph, op: Op, shared: Aliases, order: Sequence[int]) -> bool:
    """Return whether a concatenation may write its inputs directly into the state that its output aliases.

    This is the shift of a streamed window: the first input is cut out of the old state, and all other inputs are new. It is
    allowed if the cut is the only reader of the old state before the join, and all other inputs are computed after the cut.
    """
    first, home = op.inputs[0], shared.owner[op.outputs[0]]
    step = {index: number for number, index in enumerate(order)}
    if first not in graph.producer or shared.offset.get(op.outputs[0]):
        return False
    cut = graph.producer[first]
    old = graph.ops[cut].inputs[0]
    if not SPECS[graph.ops[cut].kind].cuts or old is None or shared.owner.get(old) != home or old == home:
        return False
    runs = copies.moved(graph, graph.ops[cut])
    if runs is None or len(runs) != 1 or runs[0].size != (1, 1, 1, 1):
        return False
    joined = step[next(index for index in order if graph.ops[index] is op)]
    readers = [index for name, other in shared.owner.items() if other == home for index in graph.consumers.get(name, ())]
    before = [step[index] for index in readers if step[index] < joined and index != graph.producer.get(old)]
    makers = [graph.producer.get(shared.owner.get(name or "", "")) for name in op.inputs[1:]]
    return all(at == step[cut] for at in before) and all(maker is not None and step[maker] > step[cut] for maker in makers)


def _aligned(dtype: str, offset: int) -> bool:
    return offset % max(ALIGN, itemsize(dtype)) == 0
