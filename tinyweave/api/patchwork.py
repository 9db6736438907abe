"""Compute the first ops of a graph patch by patch, as ordinary ops, so that their large maps never exist as a whole.

Each patch of the boundary, the last tensor of these ops, is computed from a slice of the first tensor, in one of two ways:

- `same`: a convolution keeps its padding. SAME gives wrong values at the inner borders of a patch, which are cut off at its
  end. The slice starts where strides and SAME padding fall as in the whole map.
- `exact`: each op computes only the rows and columns that the patch needs, with the padding VALID, or SAME if this pads the
  same sides. Otherwise a pad op comes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from ..ir import Graph, Op, Tensor, rebuild
from ..ops import spec_of
from ..ops.layout import paddings
from ..ops.spec import Family
from ..ops.window import Size, output_size, same_padding

MODES = ("same", "exact")
MOST_EXTRA = 32  # rows or columns that a slice may be longer than the receptive field
WINDOWED: tuple[Family, ...] = ("convolution", "pool", "pad")  # a pad op has windows of one element
ALONG: tuple[Family, ...] = ("unary", "binary")


class PatchedOps(NamedTuple):
    """The ops `ops` of a graph, which compute the tensor `out` from the tensor `source`, and no other tensor that is read."""

    source: str
    out: str
    ops: tuple[Op, ...]


def regions(graph: Graph, most_ops: int) -> Iterator[PatchedOps]:
    """Yield the regions that start at the first op on an int8 map and have at most `most_ops` ops."""
    start = next((index for index, op in enumerate(graph.ops) if _is_map(graph, op.inputs[0])), len(graph.ops))
    ops, made = list[Op](), list[str]()
    for op in graph.ops[start : start + most_ops]:
        source = str(ops[0].inputs[0] if ops else op.inputs[0])
        if not _is_patched(graph, op, {source, *made}):
            return
        ops.append(op)
        made.append(op.outputs[0])
        later = graph.ops[start + len(ops) :]
        read = {name for each in later for name in each.inputs} | {*graph.outputs}
        if len(ops) > 1 and spec_of(op).family != "pad" and read.intersection((source, *made)) == {op.outputs[0]}:
            yield PatchedOps(source, op.outputs[0], tuple(ops))


def _is_map(graph: Graph, name: str | None) -> bool:
    tensor = graph.tensors[name] if name else None
    return tensor is not None and tensor.dtype == "int8" and len(tensor.shape) == 4 and tensor.shape[0] == 1


def _is_patched(graph: Graph, op: Op, known: set[str]) -> bool:
    """Return whether a patch of the op's output can be computed from patches of its inputs, all of which are in `known`."""
    if spec_of(op).family not in (*WINDOWED, *ALONG) or not _is_map(graph, op.inputs[0]) or not _is_map(graph, op.outputs[0]):
        return False
    if spec_of(op).family == "pad":
        added = paddings(graph, op)
        return op.kind == "pad" and added[0] == added[3] == (0, 0) and graph.input(op).quant == graph.output(op).quant
    operands = [tensor for tensor in graph.inputs_of(op) if tensor is not None]
    maps = [tensor for tensor in operands if tensor.data is None]
    others = [tensor for tensor in operands if tensor.data is not None and not _is_windowed(op)]
    same = _is_windowed(op) or all(tensor.shape == graph.output(op).shape for tensor in maps)
    return same and known.issuperset(tensor.name for tensor in maps) and all(prod(each.shape[:-1]) == 1 for each in others)


def _is_windowed(op: Op) -> bool:
    return spec_of(op).family in WINDOWED


def _reads(graph: Graph, op: Op, axis: int, begin: int, end: int) -> tuple[int, int]:
    """Return the input positions that output positions [begin, end) depend on; padding is outside of the map."""
    if not _is_windowed(op):
        return begin, end
    kernel, stride, dilation = _window(graph, op, axis)
    low = begin * stride - _before(graph, op, axis)
    return low, low + (end - 1 - begin) * stride + (kernel - 1) * dilation + 1


def _before(graph: Graph, op: Op, axis: int) -> int:
    return (op.attrs["padding"] if "padding" in op.attrs else paddings(graph, op)[1:])[axis][0]


def _window(graph: Graph, op: Op, axis: int) -> tuple[int, int, int]:
    if spec_of(op).family == "pad":
        return 1, 1, 1
    kernel = op.attrs["kernel"] if "kernel" in op.attrs else graph.input(op, 1).shape[1:3]
    return kernel[axis], op.attrs["stride"][axis], op.attrs.get("dilation", (1, 1))[axis]


def _through(graph: Graph, op: Op, axis: int, patch: Size) -> Size | None:
    """Return the patch of the op's output from that of its input; None if the windows of both do not begin alike."""
    window, size = _window(graph, op, axis), patch[1] - patch[0]
    padding = same_padding(size, *window) if any(map(any, op.attrs["padding"])) else (0, 0)
    first, phase = divmod(patch[0] - padding[0] + _before(graph, op, axis), window[1])
    return None if phase else (first, first + output_size(size, *window, padding))


def _extents(graph: Graph, region: PatchedOps, axis: int, source: Size) -> dict[str, Size] | None:
    """Return the positions of each tensor that a slice of the source gives; None if ops do not agree."""
    found = {region.source: source}
    for op in region.ops:
        patch, *others = {found[name] for name in op.inputs if name in found}
        made = _through(graph, op, axis, patch) if _is_windowed(op) else patch
        if made is None or others:
            return None
        found[op.outputs[0]] = made
    return found


def _needed(graph: Graph, region: PatchedOps, axis: int, begin: int, end: int) -> dict[str, Size]:
    """Return the first and the end position of each tensor that positions [begin, end) of the region's output depend on."""
    needs = {region.out: (begin, end)}
    for op in reversed(region.ops):
        low, high = _reads(graph, op, axis, *needs[op.outputs[0]])
        low, high = max(low, 0), min(high, graph.input(op).shape[1 + axis])
        for name in op.inputs:
            if name is not None and graph.tensors[name].data is None:
                known = needs.get(name, (low, high))
                needs[name] = min(known[0], low), max(known[1], high)
    return needs


def _patches(graph: Graph, region: PatchedOps, axis: int, count: int, mode: str) -> list[dict[str, Size]] | None:
    """Return the extents of each of `count` patches along an axis, with the shortest slices; None if there are none."""
    out = graph.tensors[region.out].shape[1 + axis]
    found = list[dict[str, Size]]()
    if count > out:
        return None
    for number in range(count):
        begin, end = out * number // count, out * (number + 1) // count
        needed = _needed(graph, region, axis, begin, end)
        extents = _around(graph, region, axis, needed) if mode == "same" else needed
        if extents is None or any(low >= high for low, high in extents.values()):
            return None
        found.append(extents | {"": (begin, end)})
    return found


def _around(graph: Graph, region: PatchedOps, axis: int, needed: dict[str, Size]) -> dict[str, Size] | None:
    """Return the extents of the shortest slice from which a patch is right if convolutions keep their padding."""
    if any(spec_of(op).family == "pad" for op in region.ops):
        return None
    low, high = needed[region.source]
    full = graph.tensors[region.source].shape[1 + axis]
    starts, ends = range(low, max(low - MOST_EXTRA, 0) - 1, -1), range(high, min(high + MOST_EXTRA, full) + 1)
    for start, stop in sorted(product(starts, ends), key=lambda span: span[1] - span[0]):
        extents = _extents(graph, region, axis, (start, stop))
        if extents is not None:  # from all needed positions: the windows of needed values read only needed ones and padding
            return extents
    return None


def patched(graph: Graph, region: PatchedOps, grid: tuple[int, int], mode: str = "same") -> Graph | None:
    """Return the graph with a region computed in a grid of patches, in a `mode` of MODES; None if this is not possible."""
    rows, columns = (_patches(graph, region, axis, grid[axis], mode) for axis in (0, 1))
    if rows is None or columns is None:
        return None
    tensors, ops, strips, out = dict(graph.tensors), list[Op](), list[str](), graph.tensors[region.out]
    for row in rows:
        pieces = list[str]()
        for column in columns:
            patch = _Patch(graph, tensors, ops, (row, column), f".{len(strips)}_{len(pieces)}", {})
            if not _add_ops(patch, region):
                return None
            pieces.append(ops[-1].outputs[0])
        strips.append(_join(out, tensors, ops, pieces, 2))
    _join(out, tensors, ops, strips, 1)
    if any(tensors[name] is not tensor for name, tensor in graph.tensors.items()):
        return None  # the file has a tensor with a name of a patch
    names = {op.name for op in region.ops}
    start = next(index for index, op in enumerate(graph.ops) if op.name in names)
    rest = [op for op in graph.ops[start:] if op.name not in names]
    return rebuild(graph, tensors=tensors, ops=(*graph.ops[:start], *ops, *rest))


def _join(out: Tensor, tensors: dict[str, Tensor], ops: list[Op], pieces: Sequence[str], axis: int) -> str:
    """Append the concatenation of pieces of `out` along an axis, if there are several, and return the name of the result."""
    if len(pieces) == 1:
        return pieces[0]
    shape = list(tensors[pieces[0]].shape)
    shape[axis] = sum(tensors[name].shape[axis] for name in pieces)
    name = out.name if tuple(shape) == out.shape else f"{pieces[0]}.row"
    if name != out.name:
        tensors[name] = replace(out, name=name, shape=tuple(shape))
    ops.append(Op(f"join.{name}", "concatenation", tuple(pieces), (name,), {"axis": axis, "activation": "none"}))
    return name


class _Patch(NamedTuple):
    """A patch whose ops are appended to `ops`: its extents along rows and columns, and the names of its tensors."""

    graph: Graph
    tensors: dict[str, Tensor]
    ops: list[Op]
    extents: tuple[dict[str, Size], dict[str, Size]]
    suffix: str
    names: dict[str, str]

    def spans(self, name: str) -> list[Size]:
        """Return the first and the end position of a tensor of the region along rows and columns."""
        return [each[name] for each in self.extents]

    def made(self, op: Op, origin: str, spans: Sequence[Size]) -> str:
        """Append an op, and the tensor that it computes, which holds spans of `origin`; return the tensor's name."""
        (top, bottom), (left, right) = spans
        whole = self.graph.tensors[origin]
        self.tensors[op.outputs[0]] = replace(whole, name=op.outputs[0], shape=(1, bottom - top, right - left, whole.shape[3]))
        self.ops.append(op)
        return op.outputs[0]

    def part(self, origin: str, spans: Sequence[Size]) -> str:
        """Return the tensor that holds spans of `origin`: a slice, if the patch has more."""
        return self.cut(self.names[origin], origin, self.spans(origin), spans)

    def cut(self, name: str, origin: str, held: Sequence[Size], spans: Sequence[Size]) -> str:
        """Return the tensor with spans of `origin`, of which the tensor `name` holds the spans `held`."""
        if spans == held:
            return name
        new, starts = f"{origin}{self.suffix}.cut{len(self.ops)}", [a[0] - b[0] for a, b in zip(spans, held, strict=True)]
        shape = (1, *(end - begin for begin, end in spans), self.graph.tensors[origin].shape[3])
        numbers = [integers(self.tensors, each) for each in ((0, *starts, 0), shape)]
        return self.made(Op(f"slice.{new}", "slice", (name, *numbers), (new,)), origin, spans)


def _add_ops(patch: _Patch, region: PatchedOps) -> bool:
    """Append the ops of a patch; return False if no ordinary op computes one of them."""
    source = region.source
    whole = [(0, size) for size in patch.graph.tensors[source].shape[1:3]]
    patch.names[source] = patch.cut(source, source, whole, patch.spans(source))
    for op in region.ops:
        name, attrs = op.outputs[0], dict(op.attrs)
        spans = patch.spans(name)
        if _is_windowed(op):
            data = _windowed_operand(patch, op)
            if data is None:
                return False
            first, attrs["padding"] = data
            inputs: tuple[str | None, ...] = (first, *op.inputs[1:])
        else:
            inputs = tuple(patch.part(x, spans) if x in patch.names else x for x in op.inputs)
        if spec_of(op).family == "pad":
            patch.names[name] = str(inputs[0])
        else:
            new = Op(f"{op.name}{patch.suffix}", op.kind, inputs, (f"{name}{patch.suffix}",), attrs)
            patch.names[name] = patch.made(new, name, spans)
    patch.part(region.out, patch.spans(""))
    return True


def _windowed_operand(patch: _Patch, op: Op) -> tuple[str, tuple[Size, ...]] | None:
    """Return the tensor that a convolution, pool or pad op of a patch reads, and the op's padding; None for such a pool."""
    graph, origin, out = patch.graph, str(op.inputs[0]), op.outputs[0]
    spans, padding, same = list[Size](), list[Size](), list[Size]()
    for axis, ((begin, end), made) in enumerate(zip(patch.spans(origin), patch.spans(out), strict=True)):
        low, high = _reads(graph, op, axis, *made)
        window, pad, first = _window(graph, op, axis), (max(begin - low, 0), max(high - end, 0)), max(low, begin)
        ends_alike = output_size(end - first, *window, pad) == made[1] - made[0]  # the op does not read the last positions
        spans.append((first, end if ends_alike else min(high, end)))
        padding.append(pad)
        same.append(same_padding(spans[-1][1] - first, *window))
    name = patch.part(origin, spans)
    if padding == same or not any(map(any, padding)):
        return name, tuple(padding)
    if spec_of(op).family == "pool":
        return None
    padded = [(begin - pad[0], end + pad[1]) for (begin, end), pad in zip(spans, padding, strict=True)]
    new, amounts = f"{out}{patch.suffix}.padded", integers(patch.tensors, ((0, 0), *padding, (0, 0)))
    return patch.made(Op(f"pad.{new}", "pad", (name, amounts), (new,)), origin, padded), ((0, 0), (0, 0))


def integers(tensors: dict[str, Tensor], values: Sequence[int] | Sequence[Size]) -> str:
    """Add a constant with these values, unless there is one, and return its name; each constant costs RAM in TFLite Micro."""
    data = np.array(values, np.int32)
    name = f"patch.{'_'.join(map(str, data.ravel()))}"
    tensors[name] = Tensor(name, data.shape, "int32", None, data, "constant")
    return name
