"""Requirements: the conditions under which a kernel may run an op, as functions of a graph and an op that return a `Check`.

The docstring states the condition in one sentence, which `explain_kernel` quotes. Requirements of only one kernel are beside
that kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op, itemsize
from ..ops import conv
from ..ops.data_movement import pad_value
from ..ops.reduce import axes
from . import copies, geometry

Mask = NDArray[np.bool_]


class Check(NamedTuple):
    """Whether an op meets a requirement, and the numbers of the op that decide it."""

    met: bool
    found: str  # the numbers as the end of a sentence, such as "it is 5x5"


Requirement = Callable[[Graph, Op], Check]


class EachFilter(NamedTuple):
    """Whether each filter of a layer meets a condition, and the number that decides it, such as the filter's rescale shift."""

    met: Mask  # whether each filter meets the condition
    number: str  # what the number is, such as "rescale shift"
    values: NDArray[Any]  # the number of each filter

    def check(self) -> Check:
        """Return whether all filters meet the condition; if not, the result quotes the first failing filter's number."""
        (failing,) = np.nonzero(~self.met)
        if not failing.size:
            return Check(True, "")
        count = self.met.size
        others = f" ({failing.size} of {count} filters)" if failing.size > 1 else f" (the only one of {count} filters)"
        return Check(False, f"the {self.number} of filter {failing[0]} is {int(self.values[failing[0]]):,}{others}")


def weights_have_a_zero_point(graph: Graph, op: Op) -> Check:
    """The weights have a zero point."""
    zero = conv.weights_zero(graph, op)
    return Check(zero != 0, f"their zero point is {zero}")


def weights_have_no_zero_point(graph: Graph, op: Op) -> Check:
    """The weights have no zero point."""
    zero = conv.weights_zero(graph, op)
    return Check(zero == 0, f"their zero point is {zero}")


def weights_are_int4(graph: Graph, op: Op) -> Check:
    """The weights are int4."""
    dtype = graph.input(op, 1).dtype
    return Check(dtype == "int4", f"they are {dtype}")


def weights_are_int8(graph: Graph, op: Op) -> Check:
    """The weights are int8."""
    dtype = graph.input(op, 1).dtype
    return Check(dtype == "int8", f"they are {dtype}")


def types_are_bytes(graph: Graph, op: Op) -> Check:
    """The input and output types are int8 or uint8."""
    types = graph.input(op).dtype, graph.output(op).dtype
    return Check({*types} <= {"int8", "uint8"}, f"they are {types[0]} and {types[1]}")


# conditions on how weights and maps are stored: `explain_kernel` omits kernels that are for another way of storing them
STORAGE = (weights_have_a_zero_point, weights_are_int4, types_are_bytes)
COMPACT = (weights_are_int8, weights_have_no_zero_point)  # requirements of the kernels with little code


def has_weights(graph: Graph, op: Op) -> Check:
    """The layer has at least one weight."""
    count = graph.input(op, 1).elements
    return Check(count > 0, f"it has {count}")


def dilation_is_1(graph: Graph, op: Op) -> Check:
    """The dilation is 1."""
    down, across = op.attrs["dilation"]
    return Check((down, across) == (1, 1), f"it is {down}x{across}")


def has_one_group(graph: Graph, op: Op) -> Check:
    """The convolution has one group."""
    count = conv.groups(graph, op)
    return Check(count == 1, f"it has {count}")


def input_channels_are_a_multiple_of_4(graph: Graph, op: Op) -> Check:
    """The number of input channels is a multiple of 4."""
    channels = graph.input(op).shape[3]
    return Check(channels % 4 == 0, f"it is {channels}")


def has_4_output_channels(graph: Graph, op: Op) -> Check:
    """The layer has at least 4 output channels."""
    channels = graph.output(op).shape[3]
    return Check(channels >= 4, f"it has {channels}")


def has_at_most_4_outputs(graph: Graph, op: Op) -> Check:
    """There are at most 4 output channels."""
    count = graph.output(op).shape[-1]
    return Check(count <= 4, f"there are {count}")


def depth_multiplier_is_1(graph: Graph, op: Op) -> Check:
    """The depth multiplier is 1."""
    inputs, outputs = graph.input(op).shape[3], graph.output(op).shape[3]
    return Check(inputs == outputs, f"the layer has {inputs} input and {outputs} output channels")


def window_is_3x3(graph: Graph, op: Op) -> Check:
    """The window is 3x3."""
    rows, columns = conv.kernel_size(graph, op)
    return Check((rows, columns) == (3, 3), f"it is {rows}x{columns}")


def stride_is_1(graph: Graph, op: Op) -> Check:
    """The stride is 1."""
    down, across = op.attrs["stride"]
    return Check((down, across) == (1, 1), f"it is {down}x{across}")


def horizontal_stride_is_1_or_2(graph: Graph, op: Op) -> Check:
    """The horizontal stride is 1 or 2."""
    stride = op.attrs["stride"][1]
    return Check(stride in (1, 2), f"it is {stride}")


def shapes_broadcast_in_4_axes(graph: Graph, op: Op) -> Check:
    """The operands broadcast in at most 4 axes."""
    a, b = graph.input(op).shape, graph.input(op, 1).shape
    return Check(geometry.broadcast(a, b) is not None, f"their shapes are {a} and {b}")


def reduced_axes_form_2_runs(graph: Graph, op: Op) -> Check:
    """The reduced axes form at most two runs of neighbouring axes, and the kept axes three."""
    shape, reduced = graph.input(op).shape, axes(graph, op)
    return Check(geometry.reduction(shape, reduced) is not None, f"axes {tuple(reduced)} of {shape} are reduced")


def types_are_signed(graph: Graph, op: Op) -> Check:
    """The input and output types are signed integers."""
    types = graph.input(op).dtype, graph.output(op).dtype
    return Check({*types} <= {"int8", "int16", "int32"}, f"they are {types[0]} and {types[1]}")


def padding_is_a_repeated_byte(graph: Graph, op: Op) -> Check:
    """The padding is a repeated byte, as memset writes it."""
    dtype, value = graph.output(op).dtype, pad_value(graph, op)
    return Check(itemsize(dtype) == 1 or value == 0, f"it is {value} in {dtype}")


def padding_is_in_4_axes(graph: Graph, op: Op) -> Check:
    """The tensor can be viewed with at most 4 axes."""
    return Check(copies.padded(graph, op) is not None, f"its shape is {graph.input(op).shape}")


def copies_in_equal_steps(graph: Graph, op: Op) -> Check:
    """Each piece of the output is read from the input with one step per axis."""
    return Check(copies.moved(graph, op) is not None, f"the shapes are {graph.input(op).shape} and {graph.output(op).shape}")
