"""Ops whose output elements are copies of input elements: split, slice, tile, gather, resize_nearest_neighbor and the like.

`pieces` says where each output element comes from: a list of Positions, whose elements fill the outputs one after the other.
The reference and the C tables both follow it. Any type; input and outputs share their quantisation.
Source: TFLite split.cc, gather.h, mirror_pad.cc, space_to_batch_nd.h, resize_nearest_neighbor.h and the like.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op
from .constraints import arity
from .spec import Arrays, Constraint, OpSpec, OptionalArrays, Shape, constant

# One array per axis of a piece: what an index adds to the element's place in the flat input. Any -1: it is padding.
Positions = Sequence[NDArray[np.int64]]
DATA = {"split": 1}  # the input that is copied, where it isn't the first


def _x(graph: Graph, op: Op) -> Shape:
    """The shape of the input that is copied."""
    return graph.input(op, DATA.get(op.kind, 0)).shape


def _steps(shape: Shape) -> list[int]:
    """How many elements lie between neighbours, per axis."""
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _along(shape: Shape, chosen: dict[int, NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """Positions that keep all axes but those for which indices are given."""
    return [
        chosen.get(axis, np.arange(extent, dtype=np.int64)) * step
        for axis, (extent, step) in enumerate(zip(shape, _steps(shape), strict=True))
    ]


def _integers(graph: Graph, op: Op, index: int) -> list[int]:
    return [int(value) for value in constant(graph, op, index).ravel()]


def pieces(graph: Graph, op: Op) -> list[Positions]:
    """Where the elements of the outputs lie in the input; the pieces follow each other in the outputs."""
    return PIECES[op.kind](graph, op)


def pad_value(graph: Graph, op: Op) -> int:
    """What padding holds: the real number 0."""
    out = graph.output(op)
    return 0 if out.quant is None else out.zero_point


def reference(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x = arrays[DATA.get(op.kind, 0)]
    assert x is not None
    flat, copied = x.ravel(), []
    for positions in pieces(graph, op):
        at, inside = np.zeros((), np.int64), np.ones((), bool)
        for axis in positions:
            at, inside = at[..., None] + axis, inside[..., None] & (axis >= 0)
        copied.append(np.where(inside, flat[np.where(inside, at, 0)], x.dtype.type(pad_value(graph, op))).ravel())
    whole, begin, outputs = np.concatenate(copied), 0, []
    for shape in SHAPES[op.kind](graph, op):
        outputs.append(whole[begin : begin + prod(shape)].reshape(shape))
        begin += prod(shape)
    return outputs


# split, split_v, unpack, slice


def axis_of(graph: Graph, op: Op) -> int:
    """The axis along which an op works, not negative."""
    index = {"split": 0, "split_v": 2}.get(op.kind)
    axis = int(op.attrs["axis"]) if index is None else _integers(graph, op, index)[0]
    return axis % len(_x(graph, op))


def parts(graph: Graph, op: Op) -> list[int]:
    """The extents into which a split cuts its axis."""
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
    shape, axis, extents = _x(graph, op), axis_of(graph, op), parts(graph, op)
    begins = [sum(extents[:index]) for index in range(len(extents))]
    return [_along(shape, {axis: np.arange(b, b + e)}) for b, e in zip(begins, extents, strict=True)]


def infer_slice(graph: Graph, op: Op) -> list[Shape]:
    begin, size = _integers(graph, op, 1), _integers(graph, op, 2)
    return [tuple(e - b if s == -1 else s for e, b, s in zip(_x(graph, op), begin, size, strict=True))]


def slice_(graph: Graph, op: Op) -> list[Positions]:
    (size,), begin = infer_slice(graph, op), _integers(graph, op, 1)
    return [_along(_x(graph, op), {i: np.arange(b, b + s) for i, (b, s) in enumerate(zip(begin, size, strict=True))})]


# tile, broadcast_to, mirror_pad, resize_nearest_neighbor: every axis by itself


def infer_tile(graph: Graph, op: Op) -> list[Shape]:
    return [tuple(e * m for e, m in zip(_x(graph, op), _integers(graph, op, 1), strict=True))]


def tile(graph: Graph, op: Op) -> list[Positions]:
    (out,), shape = infer_tile(graph, op), _x(graph, op)
    return [_along(shape, {i: np.arange(o) % max(e, 1) for i, (o, e) in enumerate(zip(out, shape, strict=True))})]


def infer_broadcast_to(graph: Graph, op: Op) -> list[Shape]:
    return [tuple(_integers(graph, op, 1))]


def broadcast_to(graph: Graph, op: Op) -> list[Positions]:
    (out,), shape = infer_broadcast_to(graph, op), _x(graph, op)
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


def infer_resize(graph: Graph, op: Op) -> list[Shape]:
    n, _, _, c = _x(graph, op)
    h, w = _integers(graph, op, 1)
    return [(n, h, w, c)]


def nearest(size: int, out: int, attrs: dict[str, bool]) -> NDArray[np.int64]:
    """Which of `size` rows each of `out` rows shows; float32 arithmetic, as LiteRT's."""
    aligned, one = attrs["align_corners"] and out > 1, np.float32(1)
    scale = np.float32(size - 1) / np.float32(out - 1) if aligned else np.float32(size) / np.float32(out)
    at = (np.arange(out, dtype=np.float32) + one * np.float32(0.5 if attrs["half_pixel_centers"] else 0)) * scale
    if attrs["align_corners"]:
        chosen = np.floor(at.astype(np.float64) + 0.5)
    else:
        chosen = np.floor(at)
    return np.asarray(np.clip(chosen.astype(np.int64), 0, size - 1))


def resize(graph: Graph, op: Op) -> list[Positions]:
    shape, (h, w) = _x(graph, op), _integers(graph, op, 1)
    attrs = dict(op.attrs)
    return [_along(shape, {1: nearest(shape[1], h, attrs), 2: nearest(shape[2], w, attrs)})]


# gather


def infer_gather(graph: Graph, op: Op) -> list[Shape]:
    shape, axis, batch = _x(graph, op), axis_of(graph, op), int(op.attrs["batch_dims"])
    return [(*shape[:axis], *graph.input(op, 1).shape[batch:], *shape[axis + 1 :])]


def gather(graph: Graph, op: Op) -> list[Positions]:
    shape, axis, batch = _x(graph, op), axis_of(graph, op), int(op.attrs["batch_dims"])
    axes, indices = _along(shape, {}), constant(graph, op, 1).astype(np.int64)
    chosen = indices * _steps(shape)[axis]
    if batch == 0:
        return [[*axes[:axis], chosen.ravel(), *axes[axis + 1 :]]]
    # [batch, between, indices] as one axis: each batch has its own indices
    count, between = prod(shape[:batch]), _sum(axes[batch:axis])
    chosen = chosen.reshape(count, 1, -1) + _sum(axes[:batch]).reshape(count, 1, 1) + between.reshape(1, -1, 1)
    return [[chosen.ravel(), *axes[axis + 1 :]]]


def _sum(axes: Positions) -> NDArray[np.int64]:
    """Several axes as one."""
    total = np.zeros(1, np.int64)
    for axis in axes:
        total = (total[:, None] + axis).ravel()
    return total


# blocks of pixels


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
    found: list[Positions] = []
    for corner in np.ndindex(*block):
        axes = _along(shape, {})
        for i, (first, b) in enumerate(zip(corner, block, strict=True)):
            at = np.arange(out[1 + i], dtype=np.int64) * b + first - before[i]
            axes[1 + i] = np.where((at >= 0) & (at < shape[1 + i]), at * steps[1 + i], -1)
        found.append(axes)
    return found


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


# constraints


def type_and_quantisation_are_kept(graph: Graph, op: Op) -> bool:
    """the outputs must have the type, scale and zero point of the input"""
    x = graph.input(op, DATA.get(op.kind, 0))
    quantised = x.dtype in ("int8", "uint8", "int16")
    return all(out.dtype == x.dtype and (not quantised or out.quant == x.quant) for out in graph.outputs_of(op))


def operands_are_constant(graph: Graph, op: Op) -> bool:
    """the operands (axes, sizes, indices, paddings, ...) must be constant integers"""
    data = DATA.get(op.kind, 0)
    operands = [t for i, t in enumerate(graph.inputs_of(op)) if i != data and t is not None]
    return all(t.data is not None and t.dtype in ("int32", "int64") for t in operands)


def axes_are_bounded(graph: Graph, op: Op) -> bool:
    """each axis of the input and the outputs must have at most 2^20 elements"""
    shapes = (_x(graph, op), *(out.shape for out in graph.outputs_of(op)))
    return all(extent <= 1 << 20 for shape in shapes for extent in shape)


def axis_is_in_range(graph: Graph, op: Op) -> bool:
    """the axis must lie within the input's rank"""
    rank, index = len(_x(graph, op)), {"split": 0, "split_v": 2}.get(op.kind)
    if index is not None and constant(graph, op, index).size != 1:
        return False
    axis = int(op.attrs["axis"]) if index is None else _integers(graph, op, index)[0]
    return -rank <= axis < rank


def parts_fill_the_axis(graph: Graph, op: Op) -> bool:
    """the parts must be as many as the outputs and together be as long as the axis"""
    if op.kind == "unpack":
        return _x(graph, op)[axis_of(graph, op)] == len(op.outputs)
    extents = parts(graph, op)
    fits = len(extents) == len(op.outputs) and min(extents, default=0) >= 0
    return fits and sum(extents) == _x(graph, op)[axis_of(graph, op)] and _at_most_one_rest(graph, op)


def _at_most_one_rest(graph: Graph, op: Op) -> bool:
    return op.kind != "split_v" or _integers(graph, op, 1).count(-1) <= 1


def slice_is_inside(graph: Graph, op: Op) -> bool:
    """begin and size must have one value per axis and stay within the input"""
    shape, begin, size = _x(graph, op), constant(graph, op, 1), constant(graph, op, 2)
    if begin.size != len(shape) or size.size != len(shape):
        return False
    (out,) = infer_slice(graph, op)
    return all(b >= 0 and s >= 0 and b + s <= e for b, s, e in zip(_integers(graph, op, 1), out, shape, strict=True))


def multiples_match(graph: Graph, op: Op) -> bool:
    """the multiples must be one positive number per axis"""
    multiples = _integers(graph, op, 1)
    return len(multiples) == len(_x(graph, op)) and min(multiples, default=1) > 0


def broadcast_is_possible(graph: Graph, op: Op) -> bool:
    """the shape must have at least the input's rank, and extents that the input's, or 1, broadcast to"""
    shape, out = _x(graph, op), _integers(graph, op, 1)
    pairs = zip(reversed(shape), reversed(out), strict=False)
    return len(out) >= len(shape) and min(out, default=1) >= 0 and all(e in (1, o) for e, o in pairs)


def mirror_fits(graph: Graph, op: Op) -> bool:
    """the paddings must be a pair per axis, not negative and no longer than what they mirror"""
    shape, paddings, border = _x(graph, op), constant(graph, op, 1), 1 if op.attrs["mode"] == "reflect" else 0
    if paddings.shape != (len(shape), 2) or bool((paddings < 0).any()):
        return False
    return all(int(p.max()) <= extent - border or not p.any() for p, extent in zip(paddings, shape, strict=True))


def resize_is_spatial(graph: Graph, op: Op) -> bool:
    """the input must have four axes (NHWC), none of them empty, and the new size must be two positive numbers"""
    shape, size = _x(graph, op), _integers(graph, op, 1)
    return len(shape) == 4 and len(size) == 2 and min(*shape, *size) > 0


def indices_are_inside(graph: Graph, op: Op) -> bool:
    """the indices must lie within the axis, and the batch dimensions must be those that both inputs share"""
    shape, indices, batch = _x(graph, op), constant(graph, op, 1), int(op.attrs["batch_dims"])
    axis = axis_of(graph, op)
    if not 0 <= batch <= min(axis, indices.ndim) or indices.shape[:batch] != shape[:batch]:
        return False
    return bool(((indices >= 0) & (indices < shape[axis])).all())


def blocks_fit(graph: Graph, op: Op) -> bool:
    """the input must have four axes (NHWC), and the block size must divide its channels or its rows and columns"""
    shape, block = _x(graph, op), int(op.attrs["block_size"])
    if len(shape) != 4 or block < 1:
        return False
    divided = shape[3:] if op.kind == "depth_to_space" else shape[1:3]
    return all(e % (block**2 if op.kind == "depth_to_space" else block) == 0 for e in divided)


def block_shape_fits(graph: Graph, op: Op) -> bool:
    """the blocks must be positive, one per spatial axis, with a pair of paddings or crops each, and divide what they cut"""
    shape, block, pairs = _x(graph, op), constant(graph, op, 1), constant(graph, op, 2)
    if not (len(shape) in (3, 4) and block.shape == (len(shape) - 2,) and pairs.shape == (len(shape) - 2, 2)):
        return False
    if min(block) < 1 or pairs.min() < 0:
        return False
    if op.kind == "batch_to_space_nd":
        return shape[0] % int(block.prod()) == 0 and min(infer_batch_to_space(graph, op)[0]) >= 0
    return all((e + int(p.sum())) % int(b) == 0 for e, b, p in zip(shape[1:], block, pairs, strict=False))


SHAPES: dict[str, Callable[[Graph, Op], list[Shape]]] = {
    "split": infer_split,
    "split_v": infer_split,
    "unpack": infer_split,
    "slice": infer_slice,
    "tile": infer_tile,
    "broadcast_to": infer_broadcast_to,
    "mirror_pad": infer_mirror_pad,
    "resize_nearest_neighbor": infer_resize,
    "gather": infer_gather,
    "depth_to_space": infer_depth_to_space,
    "space_to_depth": infer_space_to_depth,
    "space_to_batch_nd": infer_space_to_batch,
    "batch_to_space_nd": infer_batch_to_space,
}
PIECES: dict[str, Callable[[Graph, Op], list[Positions]]] = {
    "split": split,
    "split_v": split,
    "unpack": split,
    "slice": slice_,
    "tile": tile,
    "broadcast_to": broadcast_to,
    "mirror_pad": mirror_pad,
    "resize_nearest_neighbor": resize,
    "gather": gather,
    "depth_to_space": depth_to_space,
    "space_to_depth": space_to_depth,
    "space_to_batch_nd": space_to_batch,
    "batch_to_space_nd": batch_to_space,
}
COPIES: tuple[Constraint, ...] = (type_and_quantisation_are_kept, operands_are_constant, axes_are_bounded)


def _spec(kind: str, inputs: int, *constraints: Constraint, outputs: int | None = 1) -> OpSpec:
    rules = (arity(inputs, outputs=outputs), *COPIES, *constraints)
    return OpSpec(kind, SHAPES[kind], reference, rules, data=DATA.get(kind, 0))


SPECS = (
    _spec("split", 2, axis_is_in_range, parts_fill_the_axis, outputs=None),
    _spec("split_v", 3, axis_is_in_range, parts_fill_the_axis, outputs=None),
    _spec("unpack", 1, axis_is_in_range, parts_fill_the_axis, outputs=None),
    _spec("slice", 3, slice_is_inside),
    _spec("tile", 2, multiples_match),
    _spec("broadcast_to", 2, broadcast_is_possible),
    _spec("mirror_pad", 2, mirror_fits),
    _spec("resize_nearest_neighbor", 2, resize_is_spatial),
    _spec("gather", 2, axis_is_in_range, indices_are_inside),
    _spec("depth_to_space", 1, blocks_fit),
    _spec("space_to_depth", 1, blocks_fit),
    _spec("space_to_batch_nd", 3, block_shape_fits),
    _spec("batch_to_space_nd", 3, block_shape_fits),
)
