"""Kernels that convert between types and scales."""

from __future__ import annotations

from functools import partial

import numpy as np

from ...ir import Graph, Op
from ...ops.quantization import each_byte
from ..requirements import Check, types_are_bytes, types_are_signed
from ..variant import ANY, S16, TABLE_BYTES, Variant


def values_are_offset_by_128(graph: Graph, op: Op) -> Check:
    """Each value is the input's plus or minus 128, so that only the highest bit of a byte changes."""
    bits = each_byte(graph, op) ^ np.arange(256, dtype=np.uint8)
    other = np.count_nonzero(bits != 128)
    return Check(other == 0, f"{other} of 256 values are not")


CLAMPS = ("relu", "relu6", "relu_n1_to_1")
requantize = partial(Variant, kinds=("quantize",), params="tw_requantization")
quantize = partial(Variant, kinds=("quantize",), params="tw_quantization")
dequantize = partial(Variant, kinds=("dequantize",), params="tw_quantization")

ROWS: tuple[Variant, ...] = (
    Variant("tw_flip_signs", ("quantize",), "tw_flip", ANY, applies=(types_are_bytes, values_are_offset_by_128)),
    Variant(
        "tw_requantize_table_dsp",
        ("quantize",),
        "tw_lookup",
        ANY,
        isa="dsp",
        applies=(types_are_bytes,),
        flash=lambda graph, op: TABLE_BYTES,
    ),
    requantize("tw_requantize_s8_s8", kinds=("quantize", *CLAMPS)),
    requantize("tw_requantize_s8_u8", types=("int8", "uint8")),
    requantize("tw_requantize_u8_s8", types=("uint8", "int8")),
    requantize("tw_requantize_u8_u8", types=("uint8", "uint8")),
    quantize("tw_quantize_f32_s8", types=("float32", "int8")),
    quantize("tw_quantize_f32_u8", types=("float32", "uint8")),
    dequantize("tw_dequantize_s8_f32", types=("int8", "float32")),
    dequantize("tw_dequantize_u8_f32", types=("uint8", "float32")),
    Variant("tw_cast", ("cast",), "tw_casting", ANY, has_part=False),
    quantize("tw_quantize_f32_s16", types=("float32", "int16"), has_part=False),
    dequantize("tw_dequantize_s16_f32", types=("int16", "float32"), has_part=False),
    Variant("tw_requantize_any", ("quantize",), "tw_requantization_any", ANY, has_part=False, applies=(types_are_signed,)),
    Variant("tw_requantize_any", CLAMPS, "tw_requantization_any", S16, has_part=False, applies=(types_are_signed,)),
)
