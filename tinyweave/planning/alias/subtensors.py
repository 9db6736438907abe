"""Parts: tensors that lie inside others, so that ops which only join or cut tensors need no code.

In: a graph and who owns whose bytes by `overlap.views`. Out: the same with the offsets of parts in their owners. What a split
or slice takes lies in its input where that is one run of bytes; a concatenation's inputs are computed in their places in its
output where each is one run there and nothing else fixes its place. Every part begins at a multiple of its alignment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...ir import Graph, Op, itemsize
from ...kernels import copies
from ...ops import data
from ..place.relocation_ops import is_move

CUTS = ("split", "split_v", "unpack", "slice", "strided_slice")
JOINS = ("concatenation", "pack")
ALIGN = 4  # of whatever kernels read and write; more where elements are larger


class Aliases(NamedTuple):
    """owner: activation -> the tensor in whose bytes it lies. offset: where it begins in them, when not at 0. free: ops without
    code besides those that only reshape."""

    owner: dict[str, str]
    offset: dict[str, int]
    free: frozenset[int]


def with_parts(graph: Graph, owner: Mapping[str, str], order: Sequence[int]) -> Aliases:
    """Return the aliases with all cuts and joins that need no code; cuts first, then the last joins, whose inputs may be joined
    too."""
    shared, free = Aliases(dict(owner), {}, frozenset()), set[int]()
    for index in order:
        op = graph.ops[index]
        starts = _cut(graph, op, shared) if op.kind in CUTS else []
        for name, start in zip(op.outputs, starts, strict=bool(starts)):
            _put_inside(shared, name, data(graph, op).name, start)
            free.add(index)
    for index in reversed(order):
        op = graph.ops[index]
        if op.kind in JOINS and (starts := _joined(graph, op, shared, order)):
            for tensor, start in zip(graph.inputs_of(op), starts, strict=True):
                assert tensor is not None
                _put_inside(shared, shared.owner[tensor.name], op.outputs[0], start)
            free.add(index)
    return shared._replace(free=frozenset(free))


def _put_inside(shared: Aliases, root: str, home: str, start: int) -> None:
    """Let all that lies in `root` lie in the bytes of `home`, `start` bytes after it."""
    begin = shared.offset.get(home, 0) + start
    for name in [name for name, other in shared.owner.items() if other == root]:
        shared.owner[name] = shared.owner[home]
        shared.offset[name] = shared.offset.get(name, 0) + begin


def _cut(graph: Graph, op: Op, shared: Aliases) -> list[int]:
    """Return where the outputs begin in the input; empty where they cannot lie in it."""
    source, runs = data(graph, op), copies.moved(graph, op)
    if runs is None or len(runs) != len(op.outputs) or source.data is not None:
        return []
    if graph.tensors[shared.owner[source.name]].role == "state":  # which may change while a part is needed
        return []
    starts = []
    for name, run in zip(op.outputs, runs, strict=True):
        out = graph.tensors[name]
        if run.size != (1, 1, 1, 1) or shared.owner[name] != name or not _aligned(out.dtype, run.start):
            return []
        starts.append(run.start)
    return starts


def _joined(graph: Graph, op: Op, shared: Aliases, order: Sequence[int]) -> list[int]:
    """Return where the inputs begin in the output; empty where they cannot be computed there."""
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


def _moves_down(graph: Graph, op: Op, shared: Aliases, order: Sequence[int]) -> bool:
    """Return whether what `op` joins may be computed in the state where its output lies, although that holds the old value.

    It may where the old value is read by one op alone, which cuts the first of the inputs out of it and so moves it down, and
    where all others are computed after that.
    """
    first, home = op.inputs[0], shared.owner[op.outputs[0]]
    step = {index: number for number, index in enumerate(order)}
    if first not in graph.producer or shared.offset.get(op.outputs[0]):
        return False
    cut = graph.producer[first]
    old = graph.ops[cut].inputs[0]
    if graph.ops[cut].kind not in CUTS or old is None or shared.owner.get(old) != home or old == home:
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
