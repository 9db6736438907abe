"""`OpSpec`, the row that describes one op kind, and functions that several families of ops share.

Functions in a row take `(graph, op)`; `reference` also takes the input arrays and returns the outputs, bit for bit as LiteRT's
reference kernels. Passes, quantisation, planner, emitters and docs read these rows, so a fact about a kind is stated once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from math import inf, prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError, Graph, Op, Quant, Tensor, array_type, limits
from .window import ONE_TO_ONE, Windows

Arrays = list[np.ndarray]
OptionalArrays = list[np.ndarray | None]
Shape = tuple[int, ...]
Interval = tuple[float, float]
Constraint = Callable[[Graph, Op], bool]
Reference = Callable[[Graph, Op, OptionalArrays], Arrays]
ON_INTEGERS = set[Constraint]()  # constraints that do not apply to float32 tensors


def on_integers(constraint: Constraint) -> Constraint:
    """Mark a constraint as one that does not apply to float32 tensors, and return it."""
    ON_INTEGERS.add(constraint)
    return constraint


# fused activation -> the interval to which it clamps
ACTIVATIONS = {"none": (-inf, inf), "relu": (0.0, inf), "relu6": (0.0, 6.0), "relu_n1_to_1": (-1.0, 1.0)}


Family = Literal[
    "unary",  # elementwise, one operand
    "binary",  # elementwise, two operands that broadcast as in numpy
    "comparison",  # elementwise, the output is bool
    "selection",  # elementwise, a bool selects one of two operands
    "convolution",  # windows slide over rows and columns: attributes stride, dilation and padding
    "pool",
    "transposed",  # a transposed convolution
    "dense",  # fully connected
    "matmul",  # both operands are computed
    "reduction",  # over the axes that input 1 names
    "index",  # the outputs are positions or extents, not values
    "softmax",  # along the last axis
    "resize",
    "view",  # the same bytes in another shape
    "pad",  # pad, join and copy: each output element is an input element or padding
    "join",
    "copy",
    "conversion",  # between integers and real numbers, or to another scale
    "cast",  # to another type, without regard to scales
    "state",  # reads or writes a variable
    "recurrent",  # loops over time and keeps state
    "sequence",  # loops over time from an initial state
    "detection",  # the outputs are a list of boxes
    "unknown",  # not supported
]
MOVING: tuple[Family, ...] = ("view", "pad", "join", "copy")
# scales of the quantised operands: each its own, one for all, or a fixed one for the outputs; None: no quantised form
ScaleRule = Literal["own", "shared"] | Quant | None
PROBABILITY = Quant((1 / 256,), (-128,))  # int8 values of the interval [0, 1)
LEAST_SCALE = 2.0**-39  # a tensor with a smaller scale is supported by no op kind


@dataclass(frozen=True)
class Weights:
    """Facts about the constant weights of a layer, which are its input 1."""

    axis: int  # the axis of the weights that holds the output channels
    bias: int = 2  # index of the bias input
    int4: bool = True  # whether kernels for int4 weights exist


@dataclass(frozen=True)
class OpSpec:
    """One op kind: its functions, and the facts that passes, quantisation, planner and emitters rely on."""

    kind: str
    infer: Callable[[Graph, Op], list[Shape]]  # computes the shapes of the outputs
    reference: Reference  # computes the outputs in numpy
    constraints: tuple[Constraint, ...] = ()  # predicates; each docstring is the error text and a line of the docs
    # counts the multiply-accumulates, without multiplications with padding if the third argument (`clipped`) is set
    macs: Callable[[Graph, Op, bool], int] = lambda graph, op, clipped: 0
    # the input rows and columns that an output element reads; None if it may read all of them, or if the batch is not 1
    windows: Callable[[Graph, Op], Windows | None] = lambda graph, op: None
    _: KW_ONLY
    family: Family
    # the fixed-point factors of an op; raises CompileError if fixed point cannot represent a scale
    rescale: Callable[[Graph, Op], object] = lambda graph, op: None
    data: int = 0  # index of the input that the op processes; the others are parameters (weights, axes, shapes)
    state: tuple[int, ...] = ()  # indices of the inputs that are state
    weights: Weights | None = None  # None: the kind has no weights
    view: bool = False  # the outputs hold the bytes of the first input unchanged
    cuts: bool = False  # each output is a box (a range along each axis) of the input
    resamples: bool = False  # the output may have several rows per input row
    int16: bool = False  # has a form on int16 activations that `quantize` uses
    batched: bool = False  # the first axis of input and output is the batch: several samples can be run in one call
    channelwise: bool = False  # output channel i reads only channel i of operands, unless an axis argument is the channel axis
    fuses_activation: bool = False  # the attribute `activation` clamps the output
    # how LiteRT computes on uint8 tensors: as on int8, plus 128 ("same"), or with other rounding ("unsigned"); None: it has no
    # uint8 kernel, or the family is in MOVING
    uint8: Literal["same", "unsigned"] | None = None
    # LiteRT's outputs with 0 for the elements that its kernel leaves undefined
    defined: Callable[[Graph, Op, Arrays], Arrays] = lambda graph, op, outputs: outputs
    scale: ScaleRule = None  # which tensors must share a scale, by TFLite's 8-bit quantization specification
    least_scale: float = LEAST_SCALE  # the smallest scale that a tensor of this op may have
    # computes the outputs on float32 tensors; None if `reference` computes them, too, or if the kind has no float form
    real: Reference | None = None
    arithmetic: Literal["sum", "product"] | None = None  # the output is the sum (or difference) or the product of the operands
    averages: bool = False  # each output is between the smallest and the largest input element that it reads
    rounds_twice: bool = False  # the kernel rounds to a few fractional bits, then to the output scale
    image: Interval | None = None  # interval of real numbers that contains all outputs of a unary kind
    numbers: tuple[str, ...] = ()  # the attributes of a kind that a custom op holds, all of them float32 numbers
    # (low, high) of the outputs -> interval of inputs; outside of it, the output changes by at most half a quantisation step
    useful: Callable[[float, float], Interval] | None = None

    @property
    def sums_windows(self) -> bool:
        """Whether each output is the sum of an input window times constant weights."""
        return self.weights is not None and self.family != "transposed"

    @property
    def takes_int4_weights(self) -> bool:
        """Whether the kind has weights that may be int4."""
        return self.weights is not None and self.weights.int4

    @property
    def is_table(self) -> bool:
        """Whether the int8 form is computed by a table of 256 outputs; clamps, such as relu, are computed without a table."""
        return self.family == "unary" and self.kind not in ACTIVATIONS

    @property
    def moves(self) -> bool:
        """Whether each output element is an input element or padding; such a kind takes any type."""
        return self.family in MOVING

    @property
    def shares_scale(self) -> bool:
        """Whether all quantised activations must have one scale and zero point."""
        return self.scale == "shared"

    @property
    def output_quant(self) -> Quant | None:
        """The scale and zero point that quantised outputs must have; None if any scale is allowed."""
        return self.scale if isinstance(self.scale, Quant) else None


def check_constraints(spec: OpSpec, graph: Graph, op: Op) -> None:
    """Raise CompileError if `op` breaks a constraint of `spec`, or has an int4 tensor besides weights that may be int4."""
    try:
        for constraint in spec.constraints:
            if not constraint(graph, op):
                raise CompileError(constraint.__doc__ or constraint.__name__)
        spec.rescale(graph, op)
    except CompileError as error:
        raise CompileError(error.why, error.what_to_do, op=op, tensor=error.tensor) from error
    for tensor in (*graph.inputs_of(op), *graph.outputs_of(op)):
        if tensor is not None and tensor.dtype == "int4" and (tensor.data is None or not spec.takes_int4_weights):
            raise CompileError("is int4, which this op does not support", "quantise it to int8 first", op=op, tensor=tensor)


def constant(graph: Graph, op: Op, index: int) -> np.ndarray[Any, Any]:
    """Return the value of an input that must be constant; raise CompileError if the network computes it."""
    tensor = graph.input(op, index)
    if tensor.data is None:
        raise CompileError("must be constant", "export the model with static shapes", op=op, tensor=tensor)
    return tensor.data


def operand(arrays: OptionalArrays, index: int = 0) -> np.ndarray:
    """Return the array of the input `index`, which must be present (not None)."""
    array = arrays[index]
    assert array is not None
    return array


def biased(total: NDArray[Any], arrays: OptionalArrays, index: int = 2) -> NDArray[Any]:
    """Return sums plus the bias, which is the array at `index`, or the sums if the op has no bias."""
    bias = arrays[index] if len(arrays) > index else None
    return total if bias is None else total + bias


def centred(arrays: OptionalArrays, index: int, graph: Graph, op: Op) -> NDArray[np.int64]:
    """Return the array of an input minus the input's zero point, as int64."""
    return operand(arrays, index).astype(np.int64) - graph.input(op, index).zero_point


def infer_same(graph: Graph, op: Op) -> list[Shape]:
    """Return the shape of the first input as the shape of the only output."""
    return [graph.input(op).shape]


def broadcast(a: Shape, b: Shape) -> bool:
    """Return whether two shapes can be broadcast together as in numpy."""
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a), reversed(b), strict=False))


def infer_broadcast(graph: Graph, op: Op) -> list[Shape]:
    """Return the shape to which the first two inputs broadcast as the shape of the only output."""
    return [np.broadcast_shapes(graph.input(op).shape, graph.input(op, 1).shape)]


def windows_one_to_one(graph: Graph, op: Op) -> Windows:
    """Return windows of one element: each output element reads the input element at its own position."""
    return ONE_TO_ONE


# a row with the facts of all elementwise kinds with one operand
unary = partial(
    OpSpec, infer=infer_same, windows=windows_one_to_one, family="unary", batched=True, channelwise=True, scale="own"
)


def is_pixel(tensor: Tensor) -> bool:
    """Return whether all axes except the last one (channels) have extent 1."""
    return tensor.shape[-1:] == (tensor.elements,)


def hwc(shape: Shape) -> tuple[int, int, int]:
    """Return a shape of any rank as (h, w, c). Missing axes are 1; all axes before the last two are multiplied to h."""
    padded = (1, 1, 1, *shape)
    return prod(padded[:-2]), padded[-2], padded[-1]


def activation_range(activation: str, output: Tensor) -> tuple[int, int]:
    """Return the least and greatest quantised value that an activation lets through (CalculateActivationRangeQuantized)."""
    if activation not in ACTIVATIONS:
        raise CompileError(f"unknown fused activation {activation}", tensor=output)
    (low, high), (least, most) = limits(output.dtype), ACTIVATIONS[activation]

    def quantized(real: float) -> int:
        # float32 arithmetic, rounded half away from zero, as TFLite's QuantizedValue does it
        ratio = np.float32(real) / np.float32(output.scale)
        return output.zero_point + int(np.copysign(np.floor(np.abs(np.float64(ratio)) + 0.5), ratio))

    return low if least == -inf else max(low, quantized(least)), high if most == inf else min(high, quantized(most))


def finish(graph: Graph, op: Op, scaled: NDArray[Any]) -> Arrays:
    """Add the zero point to results in units of the output's scale, clamp by the activation, and convert to its type."""
    out, activation = graph.output(op), op.attrs.get("activation", op.kind if op.kind in ACTIVATIONS else "none")
    return [np.clip(scaled + out.zero_point, *activation_range(activation, out)).astype(array_type(out.dtype))]
