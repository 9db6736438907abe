"""batch_matmul on int8 or int16 matrices in the last two axes; the axes before them broadcast.

sum((a - zero_a) * (b - zero_b)) in int32 is rescaled with one multiplier and rounded twice, or once if it is a sum of int16 in
int64, or with the attribute `once` (a dense layer with computed weights). `adj_x` and `adj_y`: the first or second operand's
matrices are stored transposed. Source: TFLite batch_matmul.cc, reference/batch_matmul.h.
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op
from . import fully_connected
from .constraints import arity, inputs_are_int8_or_int16, output_has_input_type
from .fixed_point import Rescale, quantize_multiplier, requantize, requantize_once, requantize_wide, wrap32
from .float32 import real_operand, real_outputs
from .spec import Arrays, OpSpec, OptionalArrays, Shape, broadcast, centred, finish, on_integers
from .window import ONE_TO_ONE, Windows

MAX_RANK = 5  # in LiteRT


def matrices(graph: Graph, op: Op) -> tuple[Shape, Shape]:
    """Return the shapes [..., rows, depth] and [..., depth, columns] of both operands, transposed by `adj_x` and `adj_y`."""
    a, b = graph.input(op).shape, graph.input(op, 1).shape
    if op.attrs["adj_x"]:
        a = (*a[:-2], a[-1], a[-2])
    if op.attrs["adj_y"]:
        b = (*b[:-2], b[-1], b[-2])
    return a, b


def rescale(graph: Graph, op: Op) -> Rescale:
    """Return the factor that rescales a sum of products to the output scale; scales are multiplied in float32, as in LiteRT."""
    product = np.float32(graph.input(op).scale) * np.float32(graph.input(op, 1).scale)
    return quantize_multiplier(float(product) / graph.output(op).scale)


def rescale_once(graph: Graph, op: Op) -> Rescale:
    """Return the factor for `requantize_once` of a batch_matmul with the attribute `once`; for others its multiplier is 0."""
    if not op.attrs.get("once"):
        return Rescale(0, 0)
    (multiplier,), (shift,) = fully_connected.requant(graph, op)
    return Rescale(int(multiplier), int(shift))


def infer(graph: Graph, op: Op) -> list[Shape]:
    a, b = matrices(graph, op)
    return [(*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1])]


def reference(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    a, b = (centred(arrays, index, graph, op).astype(np.float64) for index in (0, 1))  # sums are exact below 2^53
    total = product(op, a, b).astype(np.int64)
    if graph.input(op).dtype == "int16":
        return finish(graph, op, requantize_wide(total, *rescale(graph, op)))
    total = wrap32(total)
    if op.attrs.get("once"):
        return finish(graph, op, requantize_once(total, *rescale_once(graph, op)))
    return finish(graph, op, requantize(total, *rescale(graph, op)))


def product(op: Op, a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the matrix products of two arrays, which are transposed first if `adj_x` or `adj_y` is set."""
    turned = op.attrs["adj_x"], op.attrs["adj_y"]
    a, b = (x.swapaxes(-1, -2) if turn else x for x, turn in zip((a, b), turned, strict=True))
    return np.asarray(a @ b)


def macs(graph: Graph, op: Op, clipped: bool) -> int:
    return prod(graph.output(op).shape) * matrices(graph, op)[0][-1]


def windows(graph: Graph, op: Op) -> Windows | None:
    """Return 1x1 windows if each row of [1, rows, 1, depth] is multiplied with one computed matrix or its own vector."""
    a, b = graph.input(op), graph.input(op, 1)
    if not len(a.shape) == len(b.shape) == 4 or a.shape[::2] != (1, 1) or op.attrs["adj_x"] or b.data is not None:
        return None
    has_rows = b.shape[:3] == (1, a.shape[1], 1) and op.attrs["adj_y"]
    return ONE_TO_ONE if a.shape[1] > 1 and (has_rows or b.shape[:2] == (1, 1)) else None


def matrices_match(graph: Graph, op: Op) -> bool:
    """both inputs must have two to five axes, none of them empty, equal depths, and batch axes that broadcast"""
    ranks = [len(graph.input(op, index).shape) for index in (0, 1)]
    if min(ranks) < 2 or max(ranks) > MAX_RANK:
        return False
    a, b = matrices(graph, op)
    return a[-1] == b[-2] and min(*a, *b) > 0 and broadcast(a[:-2], b[:-2])


@on_integers
def scale_is_small(graph: Graph, op: Op) -> bool:
    """for dense layers with computed weights, input scale * weight scale / output scale must be below 2^8"""
    return not op.attrs.get("once") or bool((fully_connected.scales(graph, op) < 256).all())


@on_integers
def wide_sums_fit(graph: Graph, op: Op) -> bool:
    """for int16, input scale * second input scale / output scale must be below 2^7, and the depth at most 2^16"""
    if graph.input(op).dtype != "int16":
        return True
    return not op.attrs.get("once") and rescale(graph, op).shift < 8 and matrices(graph, op)[0][-1] <= 1 << 16


CONSTRAINTS = (arity(2), inputs_are_int8_or_int16, output_has_input_type, matrices_match, scale_is_small, wide_sums_fit)


def real(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    return real_outputs(product(op, real_operand(arrays), real_operand(arrays, 1)))


SPECS = (
    OpSpec(
        "batch_matmul",
        infer,
        reference,
        CONSTRAINTS,
        macs,
        windows,
        family="matmul",
        rescale=rescale,
        scale="own",
        arithmetic="product",
        real=real,
    ),
)
