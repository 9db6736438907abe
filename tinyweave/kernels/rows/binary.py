"""Kernels of elementwise ops on two operands."""

from __future__ import annotations

from functools import partial

from ...ir import Graph, Op
from ...ops import elementwise, extrema
from ..cycle_features import broadcast
from ..dsp import dense, prelu, sums
from ..requirements import Check, shapes_broadcast_in_4_axes
from ..variant import ANY, BOOL, S16, TABLE_BYTES, Variant


def shapes_are_equal(graph: Graph, op: Op) -> Check:
    """The operands and the output have the same shape."""
    a, b, out = graph.input(op).shape, graph.input(op, 1).shape, graph.output(op).shape
    return Check(a == b == out, f"their shapes are {a}, {b} and {out}")


def operands_are_computed(graph: Graph, op: Op) -> Check:
    """Both operands are computed by the network."""
    constants = [index for index in (0, 1) if graph.input(op, index).data is not None]
    return Check(not constants, f"operand {' and '.join(map(str, constants))} is constant")


def product_multiplier_is_positive(graph: Graph, op: Op) -> Check:
    """The output's rescale multiplier is positive."""
    multiplier = elementwise.mul_rescale(graph, op).multiplier
    return Check(multiplier > 0, f"it is {multiplier:,}")


def product_shift_fits(graph: Graph, op: Op) -> Check:
    """The output's rescale shift is between -31 and -2."""
    shift = elementwise.mul_rescale(graph, op).shift
    return Check(-shift in dense.EXPONENTS, f"it is {shift}")


def product_is_not_shifted_left(graph: Graph, op: Op) -> Check:
    """The output's rescale shift is between -31 and 0."""
    shift = elementwise.mul_rescale(graph, op).shift
    return Check(-31 <= shift <= 0, f"it is {shift}")


def operand_is_one_constant(graph: Graph, op: Op) -> Check:
    """One operand is a constant with one element, and the output has at least 256 elements, as many as a table of results."""
    out, constants = graph.output(op), [x is not None and x.data is not None and x.elements == 1 for x in graph.inputs_of(op)]
    met = sum(constants) == 1 and graph.input(op, constants.index(False)).elements == out.elements >= TABLE_BYTES
    shapes = [graph.input(op, index).shape for index in (0, 1)]
    return Check(met, f"the operands' shapes are {shapes[0]} and {shapes[1]}")


MAPS_ALIKE = (shapes_are_equal, operands_are_computed)
MULTIPLIES = (shapes_broadcast_in_4_axes, product_multiplier_is_positive, product_shift_fits)

row = partial(Variant, applies=(shapes_broadcast_in_4_axes,))
timed_row = partial(row, features=broadcast)  # fitted cycles differ if the operands' shapes differ
wide_row = partial(timed_row, types=S16, has_part=False)
SUM = ("add", "sub")
TABLED = (*SUM, "mul", "squared_difference", "minimum", "maximum", "prelu")

ROWS: tuple[Variant, ...] = (
    row(
        "tw_one_constant_s8",
        TABLED,
        "tw_lookup",
        applies=(operand_is_one_constant,),
        flash=lambda graph, op: TABLE_BYTES,
        timed_as="tw_lookup_s8",
    ),
    timed_row("tw_add_s8_linear_dsp", SUM, "tw_add_linear_dsp", isa="dsp", applies=(*MAPS_ALIKE, sums.sum_is_linear)),
    row(
        "tw_add_s8_broadcast_dsp",
        SUM,
        "tw_add_broadcast_dsp",
        isa="dsp",
        applies=(shapes_broadcast_in_4_axes, sums.sum_is_linear),
        timed_as="tw_add_s8_linear_dsp",
    ),
    timed_row("tw_add_s8", SUM, "tw_add"),
    timed_row(
        "tw_mul_s8_mve",
        ("mul",),
        "tw_mul",
        isa="mve",
        applies=(shapes_broadcast_in_4_axes, product_multiplier_is_positive, product_is_not_shifted_left),
    ),
    timed_row("tw_mul_s8_dsp", ("mul",), "tw_mul_dsp", isa="dsp", applies=MULTIPLIES),
    timed_row("tw_mul_s8", ("mul",), "tw_mul"),
    timed_row("tw_div_s8", ("div",), "tw_mul"),
    timed_row("tw_squared_difference_s8", ("squared_difference",), "tw_add", timed_as="tw_add_s8"),
    row("tw_extremum_s8", ("logical_and", "logical_or"), "tw_extremum", BOOL),
    row("tw_extremum_s8_mve", ("minimum", "maximum"), "tw_extremum", isa="mve"),
    row("tw_extremum_s8_dsp", ("minimum", "maximum"), "tw_extremum", isa="dsp"),
    row("tw_extremum_s8", ("minimum", "maximum"), "tw_extremum"),
    timed_row("tw_compare_s8", tuple(extrema.COMPARISONS), "tw_compare", ("int8", "bool"), timed_as="tw_add_s8"),
    Variant("tw_select_v2", ("select_v2",), "tw_select", ANY, has_part=False),
    row(
        "tw_prelu_s8_dsp",
        ("prelu",),
        "tw_prelu_dsp",
        isa="dsp",
        applies=(shapes_broadcast_in_4_axes, prelu.slopes_are_constant, prelu.prelu_is_linear),
        flash=lambda graph, op: prelu.LINE_BYTES * graph.output(op).shape[-1],
    ),
    row("tw_prelu_s8", ("prelu",), "tw_prelu"),
    wide_row("tw_add_s16_mve", SUM, "tw_add", isa="mve"),
    wide_row("tw_add_s16", SUM, "tw_add"),
    wide_row(
        "tw_mul_s16_mve", ("mul",), "tw_mul", isa="mve", applies=(shapes_broadcast_in_4_axes, product_is_not_shifted_left)
    ),
    wide_row("tw_mul_s16_dsp", ("mul",), "tw_mul_dsp", isa="dsp", applies=MULTIPLIES),
    wide_row("tw_mul_s16", ("mul",), "tw_mul"),
    wide_row("tw_extremum_s16", ("minimum", "maximum"), "tw_extremum", timed_as="tw_mul_s16"),
    wide_row("tw_prelu_s16", ("prelu",), "tw_prelu", timed_as="tw_mul_s16"),
    wide_row("tw_compare_s16", tuple(extrema.COMPARISONS), "tw_compare", types=("int16", "bool"), timed_as="tw_mul_s16"),
)
