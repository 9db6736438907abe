"""Constraints on tensors and attributes that several op kinds share: predicates over (graph, op).

The docstring is the error text and a line of the docs. A constraint may rely on those before it in the row of OpSpec.
"""

from __future__ import annotations

from ..ir import Graph, Op, Tensor, limits
from .spec import ACTIVATIONS, Constraint, on_integers

DATA = {"split": 1, "transpose_conv": 2}  # index of the input that an op processes, if not 0
BIAS = {"transpose_conv": 3}  # index of the bias, if not 2
INDEX_TYPES = ("int32", "int64")
MANY = 1 << 16  # number of inputs that stands for any number


def per_tensor(tensor: Tensor) -> bool:
    """Return whether a tensor has one scale, between 2^-40 and 2^40, and one zero point within the range of its type."""
    if tensor.quant is None or tensor.quant.axis is not None or len(tensor.quant.scale) != 1:
        return False
    low, high = limits(tensor.dtype)
    return bool(low <= tensor.zero_point <= high and 2.0**-40 <= tensor.scale <= 2.0**40)


def data(graph: Graph, op: Op) -> Tensor:
    """Return the input tensor that `op` processes, as opposed to parameters such as weights, axes and shapes."""
    return graph.input(op, DATA.get(op.kind, 0))


def arity(lower_bound: int, upper_bound: int | None = None, outputs: int | None = 1) -> Constraint:
    """Return a constraint on the numbers of inputs (by default exactly `lower_bound`) and outputs (None: at least 1)."""
    upper_bound = lower_bound if upper_bound is None else upper_bound

    def has_right_arity(graph: Graph, op: Op) -> bool:
        enough = len(op.outputs) == outputs if outputs is not None else len(op.outputs) > 0
        return lower_bound <= len(op.inputs) <= upper_bound and None not in op.inputs[:lower_bound] and enough

    count = f"{lower_bound}" if lower_bound == upper_bound else f"{lower_bound} to {upper_bound}"
    inputs = f"{'at least 1' if upper_bound == MANY else count} input{'' if upper_bound in (1, MANY) else 's'}"
    has_right_arity.__doc__ = f"must have {inputs} and {'at least 1' if outputs is None else outputs} output"
    return has_right_arity


@on_integers
def input_is_int8(graph: Graph, op: Op) -> bool:
    """the input must be int8, quantised with one scale and zero point"""
    return graph.input(op).dtype == "int8" and per_tensor(graph.input(op))


@on_integers
def input_is_int8_or_int16(graph: Graph, op: Op) -> bool:
    """the input must be int8, or int16 with zero point 0, quantised with one scale and zero point"""
    return is_narrow(data(graph, op))


@on_integers
def inputs_are_int8(graph: Graph, op: Op) -> bool:
    """all inputs must be int8, quantised with one scale and zero point each"""
    return all(t is not None and t.dtype == "int8" and per_tensor(t) for t in graph.inputs_of(op))


@on_integers
def inputs_are_int8_or_int16(graph: Graph, op: Op) -> bool:
    """all inputs must be int8, or all int16 with zero point 0, quantised with one scale and zero point each"""
    return len({t and t.dtype for t in graph.inputs_of(op)}) == 1 and all(t and is_narrow(t) for t in graph.inputs_of(op))


@on_integers
def output_has_input_type(graph: Graph, op: Op) -> bool:
    """the output must have the input's type, quantised with one scale and zero point (0 if int16)"""
    return graph.output(op).dtype == data(graph, op).dtype and is_narrow(graph.output(op))


def is_narrow(tensor: Tensor) -> bool:
    """Return whether a tensor is int8, or int16 with zero point 0, quantised with one scale and zero point."""
    is_known = tensor.dtype in ("int8", "int16") and per_tensor(tensor)
    return is_known and (tensor.dtype != "int16" or tensor.zero_point == 0)


@on_integers
def output_is_int8(graph: Graph, op: Op) -> bool:
    """the output must be int8, quantised with one scale and zero point"""
    return graph.output(op).dtype == "int8" and per_tensor(graph.output(op))


def output_is_an_index(graph: Graph, op: Op) -> bool:
    """the output must be int32 or int64"""
    return graph.output(op).dtype in INDEX_TYPES


def rank_is_4(graph: Graph, op: Op) -> bool:
    """the input and output must have four axes (NHWC)"""
    return len(graph.input(op).shape) == len(graph.output(op).shape) == 4


def weights_are_constant(graph: Graph, op: Op) -> bool:
    """the weights must be constant"""
    return graph.input(op, 1).data is not None


@on_integers
def weights_are_symmetric_int8(graph: Graph, op: Op) -> bool:
    """the weights must be int8, or int4 beside int8 inputs, with one scale or one per channel, zero point 0 unless uint8"""
    weights = graph.input(op, 1)
    channel_axis = 3 if op.kind == "depthwise_conv_2d" else 0
    if op.attrs.get("unsigned"):
        return weights.dtype == "int8" and per_tensor(weights)
    types = ("int8", "int4") if graph.input(op).dtype == "int8" else ("int8",)
    quant = weights.quant
    return weights.dtype in types and quant is not None and not any(quant.zero_point) and quant.axis in (None, channel_axis)


@on_integers
def bias_is_constant_int32(graph: Graph, op: Op) -> bool:
    """the bias must be absent or a constant int32 vector with one element per output channel"""
    bias = graph.optional_input(op, 2)
    return bias is None or (bias.data is not None and bias.dtype == "int32" and bias.shape == graph.output(op).shape[-1:])


@on_integers
def bias_is_constant(graph: Graph, op: Op) -> bool:
    """the bias must be a constant vector with one element per output channel, int32, or int64 for int16 data, else absent"""
    bias, is_int16 = graph.optional_input(op, 2), graph.input(op).dtype == "int16"
    return is_bias(bias, graph.output(op)) if bias is not None else not is_int16


@on_integers
def bias_may_be_absent(graph: Graph, op: Op) -> bool:
    """the bias must be absent or a constant vector with one element per output channel, int32, or int64 for int16 data"""
    bias = graph.optional_input(op, BIAS.get(op.kind, 2))
    return bias is None or is_bias(bias, graph.output(op))


def has_narrow_bias(graph: Graph, op: Op) -> bool:
    """Return whether an op on int16 data has an int32 bias, not the usual int64."""
    bias = graph.optional_input(op, BIAS.get(op.kind, 2))
    return graph.output(op).dtype == "int16" and bias is not None and bias.dtype == "int32"


def is_bias(bias: Tensor, out: Tensor) -> bool:
    """Return whether a tensor is a constant with one integer per channel of `out`: int32, or also int64 if `out` is int16."""
    types = ("int32", "int64") if out.dtype == "int16" else ("int32",)
    return bias.data is not None and bias.dtype in types and bias.shape == out.shape[-1:]


def activation_is_known(graph: Graph, op: Op) -> bool:
    """the fused activation must be one of none, relu, relu6, relu_n1_to_1"""
    return op.attrs["activation"] in ACTIVATIONS


@on_integers
def bounds_fit(graph: Graph, op: Op) -> bool:
    """the output scale must be more than 2^-30 times the upper bound of relu6 or relu_n1_to_1"""
    return {"relu6": 6.0, "relu_n1_to_1": 1.0}.get(op.attrs.get("activation", op.kind), 0.0) < graph.output(op).scale * 2.0**30


def same_type(graph: Graph, op: Op) -> bool:
    """all outputs must have the input's type"""
    return {out.dtype for out in graph.outputs_of(op)} == {data(graph, op).dtype}


def same_quantisation(graph: Graph, op: Op) -> bool:
    """all outputs must have the input's scale and zero point"""
    x = data(graph, op)
    return x.dtype not in ("int4", "int8", "uint8", "int16") or all(out.quant == x.quant for out in graph.outputs_of(op))


def operands_are_constant(graph: Graph, op: Op) -> bool:
    """all operands but the data (shapes, axes, indices, paddings, ...) must be constant int32 or int64"""
    return all(
        tensor is None or index == DATA.get(op.kind, 0) or (tensor.data is not None and tensor.dtype in INDEX_TYPES)
        for index, tensor in enumerate(graph.inputs_of(op))
    )
