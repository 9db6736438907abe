"""How far an output must lie below an input that it overlaps, from the order in which each kernel reads and writes.

The check of plans takes overlap distances from `distance`, so that no plan is judged by the row of the table
(`overlap_distance.py`) that it was made with. Nothing here is taken from there: `ORDERS` says which steps of `access_order.py`
each kernel takes, and the distance is that of all pairs of a step and a later one.

In: a graph, one of its ops, the name of its kernel. Out: bytes per input. A kernel that is not in KERNELS has no distances.
"""

from __future__ import annotations

from functools import partial
from weakref import WeakKeyDictionary

import numpy as np

from ..ir import Graph, Op
from .access_order import (
    Order,
    Steps,
    any_way,
    cells,
    channels,
    dense,
    elements,
    exponentials,
    framed,
    joined,
    listed,
    matrices,
    pixels,
    pixels_of_a_row,
    places,
    reductions,
    rows,
    runs_of_a_row,
    strided,
    strips,
    taps,
    transposed,
    two_of_a_row,
    two_pixels,
    vectors,
    winograd,
)

_DISTANCES: WeakKeyDictionary[Graph, dict[tuple[Op, str], dict[int, int]]] = WeakKeyDictionary()


def distance(graph: Graph, op: Op, kernel: str) -> dict[int, int]:
    """Return, per input of `op` that its output may overlap, by how many bytes the output must begin below it.

    An input is left out when the output must not overlap it at all: constants, inputs of kernels without KERNELS' entry, of ops
    on several images or with several outputs, and those of which a C compiler may move reads behind writes.
    """
    known = _DISTANCES.setdefault(graph, {})
    if (op, kernel) not in known:
        several = sum(graph.tensors[name].role != "state" for name in op.outputs) != 1
        steps = {} if kernel not in KERNELS or several else KERNELS[kernel](graph, op)
        known[op, kernel] = {index: _apart(each) for index, each in steps.items() if graph.input(op, index).data is None}
    return known[op, kernel]


def _apart(steps: Steps) -> int:
    """Return how far below an input an output must begin so that no step reads a byte that an earlier one has written."""
    written_before = np.maximum.accumulate(steps.writes)[:-1]
    return max(int((written_before - steps.reads[1:]).max(initial=0)), 0)


ORDERS: tuple[tuple[Order, tuple[str, ...]], ...] = (
    (partial(dense, at_once=4), ("tw_conv_2d_s8_offset", "tw_conv_2d_s8_w4", "tw_conv_2d_s8", "tw_conv_2d_s4")),
    (partial(dense, at_once=1), ("tw_conv_2d_s16",)),
    (partial(dense, at_once=4, rest_at_once=True), ("tw_conv_2d_s8_lean_dsp",)),
    (vectors, ("tw_conv_2d_s8_mve",)),
    (
        two_pixels,
        (
            *("tw_conv_2d_s8_w4_dsp", "tw_conv_2d_s8_dsp", "tw_conv_2d_s8_m7", "tw_conv_2d_s4_dsp"),
            *("tw_conv_2d_s8_copying_dsp", "tw_conv_2d_s8_copying_m7"),
        ),
    ),
    (winograd, ("tw_conv_2d_s8_winograd_dsp",)),
    (partial(channels, at_once=1), ("tw_depthwise_conv_2d_s8_offset", "tw_average_pool_2d_s8", "tw_max_pool_2d_s8")),
    (partial(channels, at_once=2), ("tw_average_pool_2d_s4", "tw_max_pool_2d_s4")),
    (partial(channels, at_once=4), ("tw_depthwise_conv_2d_s8_w4", "tw_depthwise_conv_2d_s8", "tw_depthwise_conv_2d_s4")),
    (taps, ("tw_depthwise_conv_2d_s8_mve",)),
    (two_of_a_row, ("tw_depthwise_pixel_s8_dsp",)),
    (two_of_a_row, tuple(f"tw_depthwise_{size}x{size}_s8_lean_{isa}" for size in (3, 5, 7) for isa in ("dsp", "m7"))),
    (pixels_of_a_row, ("tw_conv_2d_s8_scalar",)),
    (runs_of_a_row, ("tw_depthwise_3x3_s8_scalar",)),
    (strips, ("tw_depthwise_column_s8_dsp", "tw_depthwise_conv_2d_s8_dsp", "tw_depthwise_3x3_s8_m7")),
    (
        partial(rows, at_once=4),
        ("tw_fully_connected_s8_offset", "tw_fully_connected_s8_w4", "tw_fully_connected_s8", "tw_fully_connected_s4"),
    ),
    (partial(rows, at_once=4, rest_at_once=True), ("tw_fully_connected_s8_mve",)),
    (
        partial(rows, at_once=8, rest_at_once=True),
        ("tw_fully_connected_s8_w4_dsp", "tw_fully_connected_s8_dsp", "tw_fully_connected_s8_m7"),
    ),
    (partial(transposed, at_once=4), ("tw_transpose_conv_s8",)),
    (partial(transposed, at_once=1), ("tw_transpose_conv_s16",)),
    (places, ("tw_resize_bilinear_s8_float", "tw_resize_bilinear_s8")),
    (matrices, ("tw_batch_matmul_s8",)),
    (partial(reductions, at_once=4), ("tw_mean_s8",)),
    (partial(reductions, at_once=1), ("tw_reduce_extremum_s8", "tw_arg_max_s8_s32", "tw_arg_max_s8_s64")),
    (exponentials, ("tw_softmax_s8", "tw_softmax_s8_s16", "tw_log_softmax_s8")),
    (cells, ("tw_unidirectional_sequence_lstm_s8",)),
    (framed, ("tw_pad_s8",)),
    (joined, ("tw_concatenation_s8",)),
    (strided, ("tw_strided_copy",)),
    (listed, ("tw_table_copy",)),
    (pixels, ("tw_resize_nearest_neighbor_s8",)),
    (any_way, ("tw_move",)),
    (elements, ("tw_add_s8_mve", "tw_add_s8_dsp", "tw_add_s8", "tw_add_s4", "tw_add_s16", "tw_mul_s8_dsp", "tw_mul_s8")),
    (elements, ("tw_squared_difference_s8", "tw_extremum_s8", "tw_prelu_s8", "tw_leaky_relu_s16", "tw_lookup_s8")),
    (elements, ("tw_cast", "tw_requantize_any")),
    (elements, ("tw_requantize_s8_s8", "tw_requantize_s8_u8", "tw_requantize_u8_s8", "tw_requantize_u8_u8")),
    (elements, ("tw_requantize_s8_s4", "tw_requantize_s4_s8", "tw_quantize_f32_s8", "tw_quantize_f32_u8")),
    (elements, ("tw_quantize_f32_s16", "tw_dequantize_s8_f32", "tw_dequantize_u8_f32", "tw_dequantize_s16_f32")),
)

KERNELS = {kernel: order for order, kernels in ORDERS for kernel in kernels}
