"""Overlap distances: how many bytes below a dying input an output must begin to overwrite it safely.

A dying input is one whose last use is this op. At the overlap distance or more, a kernel overwrites no byte that it has yet to
read. The distance follows from the order of the kernel's reads and writes. `ORDERS` names the function of access_order.py that
lists them. tests/kernels/test_access.py compares both with the addresses that the C reads and writes as it runs, and
tests/kernels/test_overlap_distance.py runs kernels at the distance and one element below it.

Source: vMCU (arXiv 2406.06542) and TFLite Micro's memory planners have special cases; the general derivation is ours.
"""

from __future__ import annotations

from functools import partial
from weakref import WeakKeyDictionary

import numpy as np

from ..ir import Graph, Op
from . import access_order as order
from .access_order import Order, Steps

_DISTANCES: WeakKeyDictionary[Graph, dict[tuple[Op, str], dict[int, int]]] = WeakKeyDictionary()


def overlap_distances(graph: Graph, op: Op, kernel: str) -> dict[int, int]:
    """Return by input index how many bytes below the input the output must begin, so that no unread byte is overwritten.

    Inputs that the output must not overlap are left out: constants, all inputs of ops with several outputs and of kernels
    that are not in `KERNELS` (kernels with a known order of accesses), the inputs of convolutions, pools, resizes and LSTMs
    on a batch above 1, and inputs whose reads a C compiler may move behind writes. Results are cached per graph.
    """
    known = _DISTANCES.setdefault(graph, {})
    if (op, kernel) not in known:
        several = sum(graph.tensors[name].role != "state" for name in op.outputs) != 1
        steps = {} if kernel not in KERNELS or several else KERNELS[kernel](graph, op)
        known[op, kernel] = {index: _apart(each) for index, each in steps.items() if graph.input(op, index).data is None}
    return known[op, kernel]


def _apart(steps: Steps) -> int:
    """Return the smallest overlap distance, in bytes, at which no step reads a byte that an earlier step has written."""
    written_before = np.maximum.accumulate(steps.writes)[:-1]
    return max(int((written_before - steps.reads[1:]).max(initial=0)), 0)


# (function that lists reads and writes in order, names of the kernels that read and write in this order)
ORDERS: tuple[tuple[Order, tuple[str, ...]], ...] = (
    (partial(order.dense, at_once=4, rest_at_once=True), ("tw_conv_2d_s8_offset", "tw_conv_2d_s8_w4", "tw_conv_2d_s8")),
    (partial(order.dense, at_once=1), ("tw_conv_2d_s16", "tw_conv_2d_s8_compact")),
    (partial(order.dense, at_once=4, rest_at_once=True), ("tw_conv_2d_s8_lean_dsp",)),
    (partial(order.dense, at_once=4, rest_at_once=True), ("tw_conv_2d_s16_mve", "tw_conv_2d_s16_dsp")),
    (order.vectors, ("tw_conv_2d_s8_mve",)),
    (order.two_pixels, ("tw_conv_2d_s8_w4_dsp", "tw_conv_2d_s8_dsp", "tw_conv_2d_s8_m7")),
    (order.two_pixels, ("tw_conv_2d_s8_outliers_dsp", "tw_conv_2d_s8_scalar")),
    (order.two_pixels, ("tw_conv_2d_s8_copying_dsp", "tw_conv_2d_s8_copying_m7")),
    (order.two_pixels_by_filters, ("tw_conv_2d_s8_lean_scalar",)),
    (order.winograd, ("tw_conv_2d_s8_winograd_dsp",)),
    (partial(order.channels, at_once=1), ("tw_depthwise_conv_2d_s8_offset", "tw_average_pool_2d_s8", "tw_max_pool_2d_s8")),
    (partial(order.channels, at_once=1), ("tw_depthwise_conv_2d_s8_compact", "tw_average_pool_2d_s8_compact")),
    (partial(order.channels, at_once=1), ("tw_average_pool_2d_s8_dsp", "tw_average_pool_2d_s16", "tw_max_pool_2d_s16")),
    (partial(order.channels, at_once=1), ("tw_max_pool_2d_s8_dsp", "tw_max_pool_2d_s16_dsp", "tw_max_pool_2d_s8_m3")),
    (partial(order.channels, at_once=order.LANES // 2), ("tw_average_pool_2d_s16_mve", "tw_max_pool_2d_s16_mve")),
    (partial(order.channels, at_once=order.LANES), ("tw_average_pool_2d_s8_mve", "tw_max_pool_2d_s8_mve")),
    (partial(order.channels, at_once=4), ("tw_depthwise_conv_2d_s8_w4", "tw_depthwise_conv_2d_s8")),
    (order.taps, ("tw_depthwise_conv_2d_s8_mve",)),
    (partial(order.channels, at_once=8, overlapping=True), ("tw_depthwise_conv_2d_s8_m3",)),
    (partial(order.channels, at_once=4, overlapping=True), ("tw_conv_2d_s16_channels_dsp",)),
    (partial(order.channels, at_once=4), ("tw_conv_2d_s16_channels_mve",)),
    (order.column, ("tw_depthwise_column_s8_dsp", "tw_depthwise_pixel_s8_dsp")),
    (order.two_of_a_row, tuple(f"tw_depthwise_{size}x{size}_s8_lean_{isa}" for size in (3, 5, 7) for isa in ("dsp", "m7"))),
    (order.runs_of_a_row, ("tw_depthwise_3x3_s8_scalar",)),
    (order.strips, ("tw_depthwise_conv_2d_s8_dsp", "tw_depthwise_3x3_s8_m7")),
    (order.strips, ("tw_depthwise_conv_2d_s8_outliers_dsp",)),
    (partial(order.rows, at_once=4, rest_at_once=True), ("tw_fully_connected_s8_offset", "tw_fully_connected_s8_w4")),
    (partial(order.rows, at_once=4, rest_at_once=True), ("tw_fully_connected_s8", "tw_fully_connected_s8_raw_dsp")),
    (partial(order.rows, at_once=1), ("tw_fully_connected_s8_compact", "tw_fully_connected_s16")),
    (partial(order.rows, at_once=4, rest_at_once=True), ("tw_fully_connected_s8_mve",)),
    (partial(order.rows, at_once=4, rest_at_once=True), ("tw_fully_connected_s8_few_dsp",)),
    (partial(order.rows, at_once=4, rest_at_once=True), ("tw_fully_connected_s16_mve", "tw_fully_connected_s16_dsp")),
    (
        partial(order.rows, at_once=8, rest_at_once=True),
        ("tw_fully_connected_s8_w4_dsp", "tw_fully_connected_s8_dsp", "tw_fully_connected_s8_m7"),
    ),
    (partial(order.rows, at_once=8, rest_at_once=True), ("tw_fully_connected_s8_segments_dsp",)),
    (partial(order.rows, at_once=1 << 30, rest_at_once=True), ("tw_fully_connected_s8_scalar",)),
    (partial(order.transposed, at_once=4), ("tw_transpose_conv_s8",)),
    (partial(order.transposed, at_once=1), ("tw_transpose_conv_s16",)),
    (order.places, ("tw_resize_bilinear_s8_float", "tw_resize_bilinear_s8")),
    (partial(order.matrices, rest_at_once=True), ("tw_batch_matmul_s8",)),
    (order.matrices, ("tw_batch_matmul_s8_dsp",)),
    (partial(order.reductions, at_once=4), ("tw_mean_s8", "tw_mean_s8_dsp")),
    (partial(order.reductions, at_once=order.LANES), ("tw_mean_s8_mve",)),
    (
        partial(order.reductions, at_once=1),
        ("tw_mean_s16", "tw_reduce_extremum_s8", "tw_reduce_prod_s8", "tw_arg_max_s8_s32", "tw_arg_max_s8_s64"),
    ),
    (order.exponentials, ("tw_l2_normalization_s8", "tw_softmax_s8", "tw_softmax_s8_table_dsp", "tw_softmax_s8_s16")),
    (order.exponentials, ("tw_softmax_s16", "tw_log_softmax_s8")),
    (partial(order.cells, at_once=1), ("tw_unidirectional_sequence_lstm_s8", "tw_unidirectional_sequence_lstm_s8_mve")),
    (partial(order.cells, at_once=4), ("tw_unidirectional_sequence_lstm_s8_dsp",)),
    (order.steps_in_time, ("tw_gru_s8_mve", "tw_simple_rnn_s8_mve")),
    (order.steps_in_time, ("tw_gru_s8", "tw_gru_s8_dsp", "tw_simple_rnn_s8", "tw_simple_rnn_s8_dsp")),
    (order.framed, ("tw_pad_s8",)),
    (order.joined, ("tw_concatenation_s8",)),
    (order.strided, ("tw_strided_copy",)),
    (order.listed, ("tw_table_copy",)),
    (order.pixels, ("tw_resize_nearest_neighbor_s8",)),
    (order.any_way, ("tw_move",)),
    (order.elements, ("tw_add_s8", "tw_add_s16", "tw_mul_s8_dsp", "tw_mul_s8")),
    (order.elements, ("tw_mul_s8_mve", "tw_extremum_s8_mve")),
    (order.elements, ("tw_add_s8_linear_dsp", "tw_add_s8_broadcast_dsp", "tw_extremum_s8_dsp", "tw_prelu_s8_dsp")),
    (order.elements, ("tw_squared_difference_s8", "tw_extremum_s8", "tw_prelu_s8", "tw_leaky_relu_s16", "tw_lookup_s8")),
    (order.elements, ("tw_compare_s8", "tw_div_s8", "tw_mul_s16", "tw_logistic_s16", "tw_tanh_s16")),
    (order.elements, ("tw_add_s16_mve", "tw_mul_s16_mve", "tw_mul_s16_dsp")),
    (order.elements, ("tw_extremum_s16", "tw_prelu_s16", "tw_compare_s16")),
    (order.elements, ("tw_cast", "tw_requantize_any", "tw_requantize_table_dsp", "tw_one_constant_s8", "tw_flip_signs")),
    (order.elements, ("tw_requantize_s8_s8", "tw_requantize_s8_u8", "tw_requantize_u8_s8", "tw_requantize_u8_u8")),
    (order.elements, ("tw_quantize_f32_s8", "tw_quantize_f32_u8")),
    (order.elements, ("tw_quantize_f32_s16", "tw_dequantize_s8_f32", "tw_dequantize_u8_f32", "tw_dequantize_s16_f32")),
)
KERNELS = {kernel: order for order, kernels in ORDERS for kernel in kernels}
