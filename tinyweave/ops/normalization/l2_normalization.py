"""l2_normalization over the last axis of an int8 tensor. Source: TFLite l2norm.cc, reference_integer_ops l2normalization.h."""

from __future__ import annotations

import numpy as np

from ...ir import Graph, Op, Quant
from ..constraints import arity, input_is_int8, output_is_int8
from ..fixed_point import inverse_square_root, requantize
from ..float32 import real_operand, real_outputs
from ..layout import activation_is_none
from ..spec import Arrays, OpSpec, OptionalArrays, centred, finish, infer_same, on_integers, windows_one_to_one

OUTPUT_BITS = 7  # the output's scale is 2^-7
LEAST_NORM = 1e-6  # of float32 vectors; a smaller norm counts as this


def reference(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x = centred(arrays, 0, graph, op)
    multiplier, shift = inverse_square_root((x * x).sum(axis=-1, keepdims=True))
    return finish(graph, op, requantize(x, multiplier, shift + OUTPUT_BITS))


def has_elements(graph: Graph, op: Op) -> bool:
    """the input must have one to four axes, and a last axis of 1 to 8192 elements"""
    shape = graph.input(op).shape
    return 1 <= len(shape) <= 4 and min(shape) > 0 and shape[-1] <= 1 << 13  # the sum of squares stays below 2^29


@on_integers
def output_is_a_128th(graph: Graph, op: Op) -> bool:
    """the output must have the scale 1/128 and the zero point 0"""
    out = graph.output(op)
    return out.scale == 1 / 128 and out.zero_point == 0


def real(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x = real_operand(arrays)
    return real_outputs(x / np.maximum(np.sqrt((x * x).sum(axis=-1, keepdims=True)), LEAST_NORM))


SPECS = (
    OpSpec(
        "l2_normalization",
        infer_same,
        reference,
        (arity(1), input_is_int8, output_is_int8, activation_is_none, has_elements, output_is_a_128th),
        windows=windows_one_to_one,
        family="softmax",
        batched=True,
        scale=Quant((1 / 128,), (0,)),
        real=real,
    ),
)
