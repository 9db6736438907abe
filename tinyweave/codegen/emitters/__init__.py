"""Write the call of each kernel in C: a function per type of its parameters, from a Layer to that struct and the call.

In: a Layer. Out: Code. Every number comes from the same function of `ops` that the reference uses; numbers at a call site
have names, since they are members of the struct.
"""

from __future__ import annotations

from collections.abc import Callable

from ..layer import Code, Layer
from .elementwise import (
    emit_add,
    emit_add_dsp,
    emit_add_mve,
    emit_arg_max,
    emit_cast,
    emit_extremum,
    emit_leaky_relu,
    emit_log_softmax,
    emit_lookup,
    emit_mean,
    emit_mul,
    emit_mul_dsp,
    emit_pool,
    emit_prelu,
    emit_quantization,
    emit_reduce_extremum,
    emit_requantization,
    emit_requantization_any,
    emit_softmax,
)
from .movement import (
    emit_concatenation,
    emit_gather_nd,
    emit_memcpy,
    emit_move,
    emit_pad,
    emit_resize_bilinear,
    emit_resize_bilinear_float,
    emit_resize_nearest,
    emit_strided_copy,
    emit_table_copy,
)
from .weighted import (
    emit_batch_matmul,
    emit_conv,
    emit_conv_mve,
    emit_depthwise_dsp,
    emit_fully_connected,
    emit_fully_connected_dsp,
    emit_lean,
    emit_lstm,
    emit_streamed_conv,
    emit_svdf,
)

# by the parameters that a kernel takes
EMITTERS: dict[str, Callable[[Layer], Code]] = {
    "tw_conv": emit_conv,
    "tw_conv_offset": emit_conv,
    "tw_conv_s16": emit_conv,
    "tw_conv_dsp": emit_streamed_conv,
    "tw_conv_mve": emit_conv_mve,
    "tw_conv_lean_dsp": emit_lean,
    "tw_depthwise_lean_dsp": emit_lean,
    "tw_depthwise_dsp": emit_depthwise_dsp,
    "tw_depthwise_mve": emit_streamed_conv,
    "tw_fully_connected": emit_fully_connected,
    "tw_fully_connected_offset": emit_fully_connected,
    "tw_fully_connected_dsp": emit_fully_connected_dsp,
    "tw_batch_matmul": emit_batch_matmul,
    "tw_pool": emit_pool,
    "tw_add": emit_add,
    "tw_add_dsp": emit_add_dsp,
    "tw_add_mve": emit_add_mve,
    "tw_mul": emit_mul,
    "tw_mul_dsp": emit_mul_dsp,
    "tw_extremum": emit_extremum,
    "tw_prelu": emit_prelu,
    "tw_leaky_relu": emit_leaky_relu,
    "tw_lookup": emit_lookup,
    "tw_softmax": emit_softmax,
    "tw_log_softmax": emit_log_softmax,
    "tw_requantization": emit_requantization,
    "tw_requantization_any": emit_requantization_any,
    "tw_quantization": emit_quantization,
    "tw_casting": emit_cast,
    "tw_mean": emit_mean,
    "tw_reduce_extremum": emit_reduce_extremum,
    "tw_arg_max": emit_arg_max,
    "tw_resize_nearest": emit_resize_nearest,
    "tw_resize_bilinear": emit_resize_bilinear,
    "tw_resize_bilinear_float": emit_resize_bilinear_float,
    "tw_pad": emit_pad,
    "tw_concatenation": emit_concatenation,
    "tw_strides": emit_strided_copy,
    "tw_tables": emit_table_copy,
    "tw_slices": emit_gather_nd,
    "tw_lstm": emit_lstm,
    "tw_svdf": emit_svdf,
    "tw_move": emit_move,
    "memcpy": emit_memcpy,
}
