"""Emitters: the C of each kernel's call. There is one function per type of parameter struct.

In: a Layer. Out: Code. Every number comes from the same function of `ops` that the reference uses. Numbers are members of the
parameter struct, so they have names in the C.
"""

from __future__ import annotations

from collections.abc import Callable

from ..layer import Code, Layer
from . import detection, elementwise, movement, weighted

# type of the kernel's parameter struct -> emitter
EMITTERS: dict[str, Callable[[Layer], Code]] = {
    "tw_conv": weighted.emit_conv,
    "tw_conv_offset": weighted.emit_conv,
    "tw_conv_s16": weighted.emit_conv_s16,
    "tw_conv_s16_word": weighted.emit_conv_s16_word,
    "tw_conv_dsp": weighted.emit_streamed_conv,
    "tw_conv_scalar": weighted.emit_conv_scalar,
    "tw_conv_mve": weighted.emit_conv_mve,
    "tw_conv_lean_dsp": weighted.emit_lean,
    "tw_depthwise_lean_dsp": weighted.emit_lean,
    "tw_depthwise_dsp": weighted.emit_depthwise_dsp,
    "tw_depthwise_mve": weighted.emit_streamed_conv,
    "tw_fully_connected": weighted.emit_fully_connected,
    "tw_fully_connected_offset": weighted.emit_fully_connected,
    "tw_fully_connected_dsp": weighted.emit_fully_connected_dsp,
    "tw_batch_matmul": weighted.emit_batch_matmul,
    "tw_pool": elementwise.emit_pool,
    "tw_add": elementwise.emit_add,
    "tw_add_linear_dsp": elementwise.emit_add_linear,
    "tw_add_broadcast_dsp": elementwise.emit_add_linear,
    "tw_mul": elementwise.emit_mul,
    "tw_mul_dsp": elementwise.emit_mul_dsp,
    "tw_extremum": elementwise.emit_extremum,
    "tw_compare": elementwise.emit_compare,
    "tw_select": elementwise.emit_select,
    "tw_prelu": elementwise.emit_prelu,
    "tw_prelu_dsp": elementwise.emit_prelu_dsp,
    "tw_leaky_relu": elementwise.emit_leaky_relu,
    "tw_lookup": elementwise.emit_lookup,
    "tw_flip": elementwise.emit_flip,
    "tw_softmax": elementwise.emit_softmax,
    "tw_softmax_table_dsp": elementwise.emit_softmax_table,
    "tw_log_softmax": elementwise.emit_softmax,
    "tw_l2_normalization": elementwise.emit_l2_normalization,
    "tw_softmax_s16_tables": elementwise.emit_softmax_s16,
    "tw_sigmoid_s16": elementwise.emit_sigmoid_s16,
    "tw_requantization": elementwise.emit_requantization,
    "tw_requantization_any": elementwise.emit_requantization_any,
    "tw_quantization": elementwise.emit_quantization,
    "tw_casting": elementwise.emit_cast,
    "tw_mean": elementwise.emit_mean,
    "tw_reduce_prod": elementwise.emit_reduce_prod,
    "tw_reduce_extremum": elementwise.emit_reduce_extremum,
    "tw_arg_max": elementwise.emit_arg_max,
    "tw_topk_v2": elementwise.emit_topk,
    "tw_resize_nearest": movement.emit_resize_nearest,
    "tw_resize_bilinear": movement.emit_resize_bilinear,
    "tw_resize_bilinear_float": movement.emit_resize_bilinear_float,
    "tw_pad": movement.emit_pad,
    "tw_concatenation": movement.emit_concatenation,
    "tw_strides": movement.emit_strided_copy,
    "tw_tables": movement.emit_table_copy,
    "tw_slices": movement.emit_gather_nd,
    "tw_lstm": weighted.emit_lstm,
    "tw_lstm_mve": weighted.emit_lstm_mve,
    "tw_sequence": weighted.emit_sequence,
    "tw_svdf": weighted.emit_svdf,
    "tw_svdf_mve": weighted.emit_svdf_mve,
    "tw_move": movement.emit_move,
    "memcpy": movement.emit_memcpy,
    "tw_detection": detection.emit_detection,
}
