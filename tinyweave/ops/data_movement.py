"""Ops that copy elements of one input: split, transpose, tile, gather, depth_to_space and the like.

`pieces` returns for each output element the index of its input element, as `Positions` that fill the outputs one after the
other (one in all, or one per output of a split). The reference, the passes and `kernels/copies.py` use it. Tensors have any
type. Source: TFLite split.cc, strided_slice.cc, gather.h, mirror_pad.cc, resize_nearest_neighbor.h and the like.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import accumulate, pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op
from .constraints import DATA, arity, data, operands_are_constant, same_quantisation, same_type
from .resize import infer_resize, nearest_neighbours, resize_is_spatial, resize_windows
from .spec import Arrays, Constraint, OpSpec, OptionalArrays, Shape, constant, operand

# A piece of an output: one array per axis. An output element copies the input element whose index is the sum of one entry per
# axis; it is padding if an entry is -1.
Positions = Sequence[NDArray[np.int64]]


def _x(graph: Graph, op: Op) -> Shape:
    return data(graph, op).shape


def _steps(shape: Shape) -> list[int]:
    """Return the stride of each axis, in elements."""
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _along(shape: Shape, chosen: dict[int, NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """Return per axis the memory offsets (in elements) of the indices that `chosen` has for it (default: all), to be added."""
    return [
        chosen.get(axis, np.arange(extent, dtype=np.int64)) * step
        for axis, (extent, step) in enumerate(zip(shape, _steps(shape), strict=True))
    ]


def _integers(graph: Graph, op: Op, index: int) -> list[int]:
    return [int(value) for value in constant(graph, op, index).ravel()]


def pieces(graph: Graph, op: Op) -> list[Positions]:
    """Return, for each output element of a copying op, the offset in the flat input of the element that it copies.

    An entry of the list, in the order of outputs, has one array per axis, whose numbers add up to the offset; -1 is padding.
    """
    return PIECES[op.kind][1](graph, op)


def pad_value(graph: Graph, op: Op) -> int | float:
    """Return the stored value of padding: 0 (the zero point if the output is quantised), or the value operand of a padv2."""
    out = graph.output(op)
    if op.kind == "padv2":
        value: int | float = constant(graph, op, 2).ravel()[0].item()
        return value
    return 0 if out.quant is None else out.zero_point


def reference(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    return [output[0] for output in copied(graph, op, operand(arrays, DATA.get(op.kind, 0))[None])]


def copied(graph: Graph, op: Op, x: NDArray[Any]) -> Arrays:
    """Compute an op that only copies elements; `x` and the outputs have one sample per index of their first axis."""
    flat, parts = x.reshape(len(x), -1), []
    for positions in pieces(graph, op):
        at, inside = np.zeros((), np.int64), np.ones((), bool)
        for axis in positions:
            at, inside = at[..., None] + axis, inside[..., None] & (axis >= 0)
        part = flat[:, np.where(inside, at, 0).ravel()]
        part[:, ~inside.ravel()] = pad_value(graph, op)
        parts.append(part)
    shapes = PIECES[op.kind][0](graph, op)
    outputs = np.split(np.concatenate(parts, axis=1), np.cumsum([prod(shape) for shape in shapes[:-1]], dtype=int), axis=1)
    return [output.reshape(len(x), *shape) for output, shape in zip(outputs, shapes, strict=True)]


def axis_of(graph: Graph, op: Op) -> int:
    """Return the axis of split, unpack or gather, counted from the first axis (not negative)."""
    return _axes(graph, op)[0] % len(_x(graph, op))


def _axes(graph: Graph, op: Op) -> list[int]:
    """Return the values of the axis attribute or operand. A damaged file may have none or several."""
    index = {"split": 0, "split_v": 2}.get(op.kind)
    return [int(op.attrs["axis"])] if index is None else _integers(graph, op, index)


def parts(graph: Graph, op: Op) -> list[int]:
    """Return the extents of the outputs of split or unpack along the axis that is split."""
    extent = _x(graph, op)[axis_of(graph, op)]
    if op.kind == "split":
        return [extent // len(op.outputs)] * len(op.outputs)
    if op.kind == "unpack":
        return [1] * extent
    sizes = _integers(graph, op, 1)
    return [extent - sum(s for s in sizes if s >= 0) if size == -1 else size for size in sizes]


def infer_split(graph: Graph, op: Op) -> list[Shape]:
    shape, axis = _x(graph, op), axis_of(graph, op)
    return [(*shape[:axis], *(() if op.kind == "unpack" else (e,)), *shape[axis + 1 :]) for e in parts(graph, op)]


def split(graph: Graph, op: Op) -> list[Positions]:
    shape, axis, ends = _x(graph, op), axis_of(graph, op), accumulate(parts(graph, op), initial=0)
    return [_along(shape, {axis: np.arange(begin, end)}) for begin, end in pairwise(ends)]


def infer_slice(graph: Graph, op: Op) -> list[Shape]:
    begin, size = _integers(graph, op, 1), _integers(graph, op, 2)
    return [tuple(e - b if s == -1 else s for e, b, s in zip(_x(graph, op), begin, size, strict=True))]


def slice_(graph: Graph, op: Op) -> list[Positions]:
    (size,), begin = infer_slice(graph, op), _integers(graph, op, 1)
    return [_along(_x(graph, op), {i: np.arange(b, b + s) for i, (b, s) in enumerate(zip(begin, size, strict=True))})]


def infer_tile(graph: Graph, op: Op) -> list[Shape]:
    return [tuple(e * m for e, m in zip(_x(graph, op), _integers(graph, op, 1), strict=True))]


def repeat(graph: Graph, op: Op) -> list[Positions]:
    (out,), shape = PIECES[op.kind][0](graph, op), _x(graph, op)
    shape = (1,) * (len(out) - len(shape)) + shape
    return [_along(shape, {i: np.arange(o) % max(e, 1) for i, (o, e) in enumerate(zip(out, shape, strict=True))})]


def infer_mirror_pad(graph: Graph, op: Op) -> list[Shape]:
    return [tuple(e + sum(map(int, p)) for e, p in zip(_x(graph, op), constant(graph, op, 1), strict=True))]


def mirror_pad(graph: Graph, op: Op) -> list[Positions]:
    shape, border = _x(graph, op), 0 if op.attrs["mode"] == "reflect" else 1
    chosen = {}
    for axis, (extent, (before, after)) in enumerate(zip(shape, constant(graph, op, 1).tolist(), strict=True)):
        at = np.arange(-before, extent + after)
        at = np.where(at < 0, -at - border, at)
        chosen[axis] = np.where(at >= extent, 2 * (extent - 1) - at + border, at)
    return [_along(shape, chosen)]


def resize(graph: Graph, op: Op) -> list[Positions]:
    rows, cols = nearest_neighbours(graph, op)
    return [_along(_x(graph, op), {1: rows, 2: cols})]


def permutation(graph: Graph, op: Op) -> tuple[int, ...]:
    """Return for each output axis of a transpose the input axis, counted from the first axis (not negative)."""
    return tuple(int(axis) % len(graph.input(op).shape) for axis in constant(graph, op, 1).ravel())


def transpose(graph: Graph, op: Op) -> list[Positions]:
    axes = _along(_x(graph, op), {})
    return [[axes[axis] for axis in permutation(graph, op)]]


def slice_index(graph: Graph, op: Op) -> tuple[slice | int | None, ...]:
    """Return a strided_slice as a numpy index, with its masks applied and the ellipsis expanded."""
    begin, end, strides = (constant(graph, op, i).ravel().tolist() for i in (1, 2, 3))

    def set_in(name: str, position: int) -> bool:
        return bool(int(op.attrs[f"{name}_mask"]) >> position & 1)

    consumed = sum(not set_in("new_axis", i) and not set_in("ellipsis", i) for i in range(len(begin)))
    index: list[slice | int | None] = []
    for i in range(len(begin)):
        if set_in("ellipsis", i):
            index += [slice(None)] * (len(graph.input(op).shape) - consumed)
        elif set_in("new_axis", i):
            index.append(None)
        elif set_in("shrink_axis", i):
            index.append(0 if set_in("begin", i) else begin[i])
        else:
            stop = begin[i] + end[i] if op.attrs["offset"] else end[i]
            first, last = None if set_in("begin", i) else begin[i], None if set_in("end", i) else stop
            index.append(slice(first, last, strides[i]))
    return tuple(index)


def infer_strided_slice(graph: Graph, op: Op) -> list[Shape]:
    # a broadcast scalar has the input's shape but takes no memory
    return [np.broadcast_to(np.int8(0), graph.input(op).shape)[slice_index(graph, op)].shape]


def strided_slice(graph: Graph, op: Op) -> list[Positions]:
    axes = iter(_along(_x(graph, op), {}))
    chosen = [
        np.zeros(1, np.int64) if part is None else next(axes)[part if isinstance(part, slice) else [part]]
        for part in slice_index(graph, op)
    ]
    return [[*chosen, *axes]]


def infer_gather(graph: Graph, op: Op) -> list[Shape]:
    shape, axis, batch = _x(graph, op), axis_of(graph, op), int(op.attrs["batch_dims"])
    return [(*shape[:axis], *graph.input(op, 1).shape[batch:], *shape[axis + 1 :])]


def gather(graph: Graph, op: Op) -> list[Positions]:
    shape, axis, batch = _x(graph, op), axis_of(graph, op), int(op.attrs["batch_dims"])
    axes, indices = _along(shape, {}), constant(graph, op, 1).astype(np.int64)
    chosen = indices * _steps(shape)[axis]
    if batch == 0:
        return [[*axes[:axis], chosen.ravel(), *axes[axis + 1 :]]]
    # each batch has its own indices, so [batch, between, indices] are one axis
    count, between = prod(shape[:batch]), _sum(axes[batch:axis])
    chosen = chosen.reshape(count, 1, -1) + _sum(axes[:batch]).reshape(count, 1, 1) + between.reshape(1, -1, 1)
    return [[chosen.ravel(), *axes[axis + 1 :]]]


def _sum(axes: Positions) -> NDArray[np.int64]:
    """Return the sums of all combinations of one offset per axis, flattened in row-major order."""
    return np.asarray(reduce(np.add.outer, axes, np.zeros(1, np.int64))).ravel()


def infer_depth_to_space(graph: Graph, op: Op) -> list[Shape]:
    (n, h, w, c), block = _x(graph, op), int(op.attrs["block_size"])
    return [(n, h * block, w * block, c // block**2)]


def depth_to_space(graph: Graph, op: Op) -> list[Positions]:
    block, (out,) = int(op.attrs["block_size"]), infer_depth_to_space(graph, op)
    image, row, pixel, _ = _steps(_x(graph, op))
    n, y, x, c = (np.arange(extent, dtype=np.int64) for extent in out)
    return [[n * image, y // block * row + y % block * block * out[3], x // block * pixel + x % block * out[3], c]]


def infer_space_to_depth(graph: Graph, op: Op) -> list[Shape]:
    (n, h, w, c), block = _x(graph, op), int(op.attrs["block_size"])
    return [(n, h // block, w // block, c * block**2)]


def space_to_depth(graph: Graph, op: Op) -> list[Positions]:
    block, ((n, h, w, _),) = int(op.attrs["block_size"]), infer_space_to_depth(graph, op)
    image, row, pixel, _ = _steps(_x(graph, op))
    blocks = [np.arange(block) * row, np.arange(block) * pixel, np.arange(_x(graph, op)[3])]
    return [[np.arange(n) * image, np.arange(h) * block * row, np.arange(w) * block * pixel, *blocks]]


def infer_space_to_batch(graph: Graph, op: Op) -> list[Shape]:
    (n, *spatial), block = _x(graph, op), _integers(graph, op, 1)
    padded = [e + sum(map(int, p)) for e, p in zip(spatial[: len(block)], constant(graph, op, 2), strict=True)]
    return [(n * prod(block), *(e // b for e, b in zip(padded, block, strict=True)), *spatial[len(block) :])]


def space_to_batch(graph: Graph, op: Op) -> list[Positions]:
    shape, block, (out,) = _x(graph, op), _integers(graph, op, 1), infer_space_to_batch(graph, op)
    steps, before = _steps(shape), constant(graph, op, 2)[:, 0].tolist()
    whole = _along(shape, {})

    def of_phase(axis: int, first: int) -> NDArray[np.int64]:
        at = np.arange(out[axis], dtype=np.int64) * block[axis - 1] + first - before[axis - 1]
        return np.where((at >= 0) & (at < shape[axis]), at * steps[axis], -1)

    corners = ([of_phase(axis, first) for axis, first in enumerate(corner, 1)] for corner in np.ndindex(*block))
    return [[whole[0], *corner, *whole[1 + len(block) :]] for corner in corners]


def infer_batch_to_space(graph: Graph, op: Op) -> list[Shape]:
    (n, *spatial), block = _x(graph, op), _integers(graph, op, 1)
    whole = [e * b for e, b in zip(spatial[: len(block)], block, strict=True)]
    cropped = (e - sum(map(int, c)) for e, c in zip(whole, constant(graph, op, 2), strict=True))
    return [(n // prod(block), *cropped, *spatial[len(block) :])]


def batch_to_space(graph: Graph, op: Op) -> list[Positions]:
    shape, block, (out,) = _x(graph, op), _integers(graph, op, 1), infer_batch_to_space(graph, op)
    steps, crop = _steps(shape), constant(graph, op, 2)[:, 0].tolist()
    axes = [np.arange(out[0], dtype=np.int64) * steps[0], *_along(shape, {})[1:]]
    for i, b in enumerate(block):
        at = np.arange(out[1 + i], dtype=np.int64) + crop[i]
        axes[1 + i] = at // b * steps[1 + i] + at % b * prod(block[i + 1 :]) * out[0] * steps[0]
    return [axes]


def axes_are_bounded(graph: Graph, op: Op) -> bool:
    """each axis of the input and the outputs must have at most 2^20 elements"""
    return max(0, *_x(graph, op), *(extent for out in graph.outputs_of(op) for extent in out.shape)) <= 1 << 20


def axis_is_in_range(graph: Graph, op: Op) -> bool:
    """the axis must be one number within the input's rank"""
    rank, axes = len(_x(graph, op)), _axes(graph, op)
    return len(axes) == 1 and -rank <= axes[0] < rank


def parts_fill_the_axis(graph: Graph, op: Op) -> bool:
    """there must be one part per output, and the parts must add up to the extent of the axis"""
    extents, rests = parts(graph, op), _integers(graph, op, 1).count(-1) if op.kind == "split_v" else 0
    fits = len(extents) == len(op.outputs) and min(extents, default=0) >= 0 and rests <= 1
    return fits and sum(extents) == _x(graph, op)[axis_of(graph, op)]


def slice_is_inside(graph: Graph, op: Op) -> bool:
    """begin and size must have one value per axis and select a range within the input"""
    shape, begin, size = _x(graph, op), constant(graph, op, 1), constant(graph, op, 2)
    if {begin.size, size.size} != {len(shape)}:
        return False
    (out,) = infer_slice(graph, op)
    return all(b >= 0 and s >= 0 and b + s <= e for b, s, e in zip(_integers(graph, op, 1), out, shape, strict=True))


def multiples_match(graph: Graph, op: Op) -> bool:
    """the multiples must be one positive number of repetitions per axis"""
    multiples = _integers(graph, op, 1)
    return len(multiples) == len(_x(graph, op)) and min(multiples, default=1) > 0


def broadcast_is_possible(graph: Graph, op: Op) -> bool:
    """the input must be broadcastable to the shape: each of its extents must be 1 or equal"""
    shape, out = _x(graph, op), _integers(graph, op, 1)
    pairs = zip(reversed(shape), reversed(out), strict=False)
    return len(out) >= len(shape) and min(out, default=1) >= 0 and all(e in (1, o) for e, o in pairs)


def mirror_fits(graph: Graph, op: Op) -> bool:
    """the paddings must be a pair per axis, not negative and at most the extent of the axis (minus 1 in mode reflect)"""
    shape, paddings, border = _x(graph, op), constant(graph, op, 1), 1 if op.attrs["mode"] == "reflect" else 0
    fits = paddings.shape == (len(shape), 2) and bool((paddings >= 0).all())
    return fits and all(int(p.max()) <= extent - border or not p.any() for p, extent in zip(paddings, shape, strict=True))


def indices_are_inside(graph: Graph, op: Op) -> bool:
    """the indices must be within the axis, and the batch dimensions of both inputs must be equal"""
    shape, indices, batch = _x(graph, op), constant(graph, op, 1), int(op.attrs["batch_dims"])
    axis = axis_of(graph, op)
    is_shared = 0 <= batch <= min(axis, indices.ndim) and indices.shape[:batch] == shape[:batch]
    return is_shared and bool(((indices >= 0) & (indices < shape[axis])).all())


def blocks_fit(graph: Graph, op: Op) -> bool:
    """the input must have four axes (NHWC), and the block size must divide its channels or its rows and columns"""
    shape, block = _x(graph, op), int(op.attrs["block_size"])
    if len(shape) != 4 or block < 1:
        return False
    divided = shape[3:] if op.kind == "depth_to_space" else shape[1:3]
    return all(e % (block**2 if op.kind == "depth_to_space" else block) == 0 for e in divided)


def block_shape_fits(graph: Graph, op: Op) -> bool:
    """each spatial axis must have a positive block size dividing the padded axis or batch, and a pair of paddings or crops"""
    shape, block, pairs = _x(graph, op), constant(graph, op, 1), constant(graph, op, 2)
    fits = len(shape) in (3, 4) and block.shape == (len(shape) - 2,) and pairs.shape == (len(shape) - 2, 2)
    if not fits or min(block) < 1 or pairs.min() < 0:
        return False
    if op.kind == "batch_to_space_nd":
        return shape[0] % int(block.prod()) == 0 and min(infer_batch_to_space(graph, op)[0]) >= 0
    return all((e + int(p.sum())) % int(b) == 0 for e, b, p in zip(shape[1:], block, pairs, strict=False))


def permutation_is_valid(graph: Graph, op: Op) -> bool:
    """the permutation must contain every axis of the input once"""
    rank, perm = len(graph.input(op).shape), _integers(graph, op, 1)
    return all(-rank <= axis < rank for axis in perm) and sorted(axis % rank for axis in perm) == list(range(rank))


def slice_is_valid(graph: Graph, op: Op) -> bool:
    """begin, end and strides must be equally long vectors, no stride 0; a single index must exist and have a positive stride"""
    vectors = [constant(graph, op, i) for i in (1, 2, 3)]
    shrinks = int(op.attrs["shrink_axis_mask"]) & ~int(op.attrs["new_axis_mask"]) & ~int(op.attrs["ellipsis_mask"])
    if any(v.ndim != 1 or v.shape != vectors[0].shape for v in vectors) or not vectors[2].all():
        return False
    if any(stride < 0 and shrinks >> i & 1 for i, stride in enumerate(vectors[2].tolist())):
        return False
    try:
        infer_strided_slice(graph, op)
    except IndexError:
        return False
    return True


# kind -> functions that return the shapes of its outputs and their positions in the input
PIECES: dict[str, tuple[Callable[[Graph, Op], list[Shape]], Callable[[Graph, Op], list[Positions]]]] = {
    "split": (infer_split, split),
    "split_v": (infer_split, split),
    "unpack": (infer_split, split),
    "slice": (infer_slice, slice_),
    "tile": (infer_tile, repeat),
    "broadcast_to": (lambda graph, op: [tuple(_integers(graph, op, 1))], repeat),
    "mirror_pad": (infer_mirror_pad, mirror_pad),
    "resize_nearest_neighbor": (infer_resize, resize),
    "gather": (infer_gather, gather),
    "depth_to_space": (infer_depth_to_space, depth_to_space),
    "space_to_depth": (infer_space_to_depth, space_to_depth),
    "space_to_batch_nd": (infer_space_to_batch, space_to_batch),
    "batch_to_space_nd": (infer_batch_to_space, batch_to_space),
    "transpose": (lambda graph, op: [tuple(graph.input(op).shape[axis] for axis in permutation(graph, op))], transpose),
    "strided_slice": (infer_strided_slice, strided_slice),
}


def _spec(kind: str, inputs: int, *constraints: Constraint, outputs: int | None = 1, **facts: Any) -> OpSpec:
    constraints = (arity(inputs, outputs=outputs), same_type, same_quantisation, operands_are_constant, *constraints)
    index = DATA.get(kind, 0)
    return OpSpec(kind, PIECES[kind][0], reference, constraints, family="copy", data=index, scale="shared", **facts)


SPECS = (
    _spec("split", 2, axes_are_bounded, axis_is_in_range, parts_fill_the_axis, outputs=None, cuts=True, int16=True),
    _spec("split_v", 3, axes_are_bounded, axis_is_in_range, parts_fill_the_axis, outputs=None, cuts=True, int16=True),
    _spec("unpack", 1, axes_are_bounded, axis_is_in_range, parts_fill_the_axis, outputs=None, cuts=True, int16=True),
    _spec("slice", 3, axes_are_bounded, slice_is_inside, cuts=True, int16=True),
    _spec("tile", 2, axes_are_bounded, multiples_match, channelwise=True),
    _spec("broadcast_to", 2, axes_are_bounded, broadcast_is_possible),
    _spec("mirror_pad", 2, axes_are_bounded, mirror_fits, channelwise=True),
    _spec(
        "resize_nearest_neighbor",
        2,
        axes_are_bounded,
        resize_is_spatial,
        windows=resize_windows,
        resamples=True,
        batched=True,
        channelwise=True,
        int16=True,
    ),
    _spec("gather", 2, axes_are_bounded, axis_is_in_range, indices_are_inside),
    _spec("depth_to_space", 1, axes_are_bounded, blocks_fit, int16=True),
    _spec("space_to_depth", 1, axes_are_bounded, blocks_fit, int16=True),
    _spec("space_to_batch_nd", 3, axes_are_bounded, block_shape_fits, channelwise=True),
    _spec("batch_to_space_nd", 3, axes_are_bounded, block_shape_fits, channelwise=True),
    _spec("transpose", 2, permutation_is_valid, int16=True),
    _spec("strided_slice", 4, slice_is_valid, cuts=True, int16=True),
)
