"""Compute the first ops of a graph patch by patch, as ordinary ops, so that their large maps never exist as a whole.

Each patch of the boundary, the last tensor of these ops, is computed from a slice of the first tensor. A convolution of a patch
keeps its padding, SAME or VALID. SAME gives wrong values at the inner borders of a patch, which are cut off at its end. The
slice starts where strides and the padding of SAME agree with those of the whole map.
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
from ..ops.spec import Family
from ..ops.window import output_size, same_padding

MOST_EXTRA = 32  # rows or columns that a slice may be longer than the receptive field
WINDOWED: tuple[Family, ...] = ("convolution", "pool")
ALONG: tuple[Family, ...] = ("unary", "binary")


class Extent(NamedTuple):
    """A patch along one axis: `size` positions from `first` on, of which those in [begin, end) have right values."""

    first: int
    size: int
    begin: int
    end: int


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
        if len(ops) > 1 and read.intersection((source, *made)) == {op.outputs[0]}:
            yield PatchedOps(source, op.outputs[0], tuple(ops))


def _is_map(graph: Graph, name: str | None) -> bool:
    tensor = graph.tensors[name] if name else None
    return tensor is not None and tensor.dtype == "int8" and len(tensor.shape) == 4 and tensor.shape[0] == 1


def _is_patched(graph: Graph, op: Op, known: set[str]) -> bool:
    """Return whether a patch of the op's output can be computed from patches of its inputs, all of which are in `known`."""
    if spec_of(op).family not in (*WINDOWED, *ALONG) or not _is_map(graph, op.inputs[0]) or not _is_map(graph, op.outputs[0]):
        return False
    operands = [tensor for tensor in graph.inputs_of(op) if tensor is not None]
    maps = [tensor for tensor in operands if tensor.data is None]
    others = [tensor for tensor in operands if tensor.data is not None and not _is_windowed(op)]
    same = _is_windowed(op) or all(tensor.shape == graph.output(op).shape for tensor in maps)
    return same and known.issuperset(tensor.name for tensor in maps) and all(prod(each.shape[:-1]) == 1 for each in others)


def _is_windowed(op: Op) -> bool:
    return spec_of(op).family in WINDOWED


def _through(graph: Graph, op: Op, axis: int, patch: Extent) -> Extent | None:
    """Return the patch of the op's output from that of its input; None if the windows of both do not begin alike."""
    full, out = graph.input(op).shape[1 + axis], graph.output(op).shape[1 + axis]
    kernel, stride, dilation = _window(graph, op, axis)
    pad = op.attrs["padding"][axis][0]
    padding = same_padding(patch.size, kernel, stride, dilation) if any(map(any, op.attrs["padding"])) else (0, 0)
    first, phase = divmod(patch.first - padding[0] + pad, stride)
    size, span = output_size(patch.size, kernel, stride, dilation, padding), (kernel - 1) * dilation + 1
    if phase or size < 1:
        return None
    begin = 0 if patch.first == patch.begin == 0 else -(-(patch.begin + pad) // stride)
    end = out if patch.first + patch.size == patch.end == full else (patch.end - span + pad) // stride + 1
    return Extent(first, size, max(begin, first, 0), min(end, first + size, out))


def _window(graph: Graph, op: Op, axis: int) -> tuple[int, int, int]:
    kernel = op.attrs["kernel"] if "kernel" in op.attrs else graph.input(op, 1).shape[1:3]
    return kernel[axis], op.attrs["stride"][axis], op.attrs.get("dilation", (1, 1))[axis]


def _extents(graph: Graph, region: PatchedOps, axis: int, begin: int, end: int) -> dict[str, Extent] | None:
    """Return the extent of each tensor of a patch from source positions [begin, end); None if ops do not agree."""
    found = {region.source: Extent(begin, end - begin, begin, end)}
    for op in region.ops:
        patches = [found[name] for name in op.inputs if name in found]
        patch = _through(graph, op, axis, patches[0]) if _is_windowed(op) else patches[0]
        if patch is None or any((each.first, each.size) != (patches[0].first, patches[0].size) for each in patches):
            return None
        begin, end = max([patch.begin, *(each.begin for each in patches)]), min([patch.end, *(each.end for each in patches)])
        found[op.outputs[0]] = patch if _is_windowed(op) else patch._replace(begin=begin, end=end)
    return found


def _needed(graph: Graph, region: PatchedOps, axis: int, begin: int, end: int) -> tuple[int, int]:
    """Return the source positions that positions [begin, end) of the region's output depend on."""
    needs = {region.out: (begin, end)}
    for op in reversed(region.ops):
        low, high = needs[op.outputs[0]]
        if _is_windowed(op):
            kernel, stride, dilation = _window(graph, op, axis)
            pad = op.attrs["padding"][axis][0]
            span = (high - 1) * stride - pad + (kernel - 1) * dilation + 1
            low, high = max(low * stride - pad, 0), min(span, graph.input(op).shape[1 + axis])
        for name in op.inputs:
            if name is not None and graph.tensors[name].data is None:
                known = needs.get(name, (low, high))
                needs[name] = min(known[0], low), max(known[1], high)
    return needs[region.source]


def _patches(graph: Graph, region: PatchedOps, axis: int, count: int) -> list[dict[str, Extent]] | None:
    """Return the extents of each of `count` patches along an axis, with the shortest slices; None if there are none."""
    full, out = (graph.tensors[name].shape[1 + axis] for name in (region.source, region.out))
    found = list[dict[str, Extent]]()
    if count > out:
        return None
    for number in range(count):
        begin, end = out * number // count, out * (number + 1) // count
        low, high = _needed(graph, region, axis, begin, end)
        starts, ends = range(low, max(low - MOST_EXTRA, 0) - 1, -1), range(high, min(high + MOST_EXTRA, full) + 1)
        for start, stop in sorted(product(starts, ends), key=lambda span: span[1] - span[0]):
            extents = _extents(graph, region, axis, start, stop)
            if extents is not None and extents[region.out].begin <= begin and extents[region.out].end >= end:
                found.append(extents | {"": Extent(begin, end - begin, begin, end)})
                break
        else:
            return None
    return found


def patched(graph: Graph, region: PatchedOps, grid: tuple[int, int]) -> Graph | None:
    """Return the graph with a region computed in a grid of patches, one after the other; None if this is not possible."""
    rows, columns = (_patches(graph, region, axis, grid[axis]) for axis in (0, 1))
    if rows is None or columns is None:
        return None
    tensors, ops, strips, out = dict(graph.tensors), list[Op](), list[str](), graph.tensors[region.out]
    for row in rows:
        pieces = list[str]()
        for column in columns:
            ops += _patch(graph, tensors, region, (row, column), f".{len(strips)}_{len(pieces)}")
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


def _patch(
    graph: Graph,
    tensors: dict[str, Tensor],
    region: PatchedOps,
    extents: tuple[dict[str, Extent], dict[str, Extent]],
    suffix: str,
) -> list[Op]:
    """Return the ops of one patch, and add their tensors; `extents` are those along rows and columns."""

    def sized(name: str) -> tuple[int, int]:
        return extents[0][name].size, extents[1][name].size

    def add(name: str, origin: str, size: tuple[int, int]) -> None:
        shape = (1, *size, graph.tensors[origin].shape[3])
        tensors[name] = replace(graph.tensors[origin], name=name, shape=shape)

    def cut(name: str, origin: str, starts: tuple[int, int], size: tuple[int, int]) -> None:
        """Append a slice of the tensor `name`, which holds a patch of `origin`, and let it stand for `origin`."""
        names[origin] = f"{origin}{suffix}.cut"
        add(names[origin], origin, size)
        numbers = [integers(tensors, (0, *starts, 0)), integers(tensors, tensors[names[origin]].shape)]
        ops.append(Op(f"slice.{names[origin]}", "slice", (name, *numbers), (names[origin],)))

    names, ops = {region.source: region.source}, list[Op]()
    if sized(region.source) != graph.tensors[region.source].shape[1:3]:
        starts = extents[0][region.source].first, extents[1][region.source].first
        cut(region.source, region.source, starts, sized(region.source))
    for op in region.ops:
        attrs, out = dict(op.attrs), op.outputs[0]
        if _is_windowed(op) and any(map(any, attrs["padding"])):
            size = sized(str(op.inputs[0]))
            attrs["padding"] = tuple(same_padding(size[axis], *_window(graph, op, axis)) for axis in (0, 1))
        names[out] = f"{out}{suffix}"
        add(names[out], out, sized(out))
        inputs = tuple(names.get(name, name) if name else name for name in op.inputs)
        ops.append(Op(f"{op.name}{suffix}", op.kind, inputs, (names[out],), attrs))
    size = extents[0][""].size, extents[1][""].size
    if sized(region.out) != size:
        rows, columns = (each[""].first - each[region.out].first for each in extents)
        cut(names[region.out], region.out, (rows, columns), size)
    return ops


def integers(tensors: dict[str, Tensor], values: Sequence[int]) -> str:
    """Add a constant with these values, unless there is one, and return its name; each constant costs RAM in TFLite Micro."""
    name = f"patch.{'_'.join(map(str, values))}"
    tensors[name] = Tensor(name, (len(values),), "int32", None, np.array(values, np.int32), "constant")
    return name
