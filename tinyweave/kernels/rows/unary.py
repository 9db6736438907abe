"""Kernels of functions of one operand: lookup tables, softmax, leaky ReLU."""

from __future__ import annotations

from ...ir import Graph, Op
from ...ops import SPECS
from ...ops.normalization import softmax
from ..requirements import Check
from ..variant import BOOL, S16, Variant

TABLES = tuple(kind for kind, spec in SPECS.items() if spec.is_table)

TABLE_PAYS = 1024  # elements of a softmax, which save about 200 cycles each for at most as many bytes of a table


def a_table_pays(graph: Graph, op: Op) -> Check:
    """The map has at least 1,024 elements, so that a table of exponentials pays."""
    elements = graph.output(op).elements
    return Check(elements >= TABLE_PAYS, f"it has {elements:,}")


ROWS: tuple[Variant, ...] = (
    Variant("tw_leaky_relu_s16", ("leaky_relu",), "tw_leaky_relu", S16),
    Variant(
        "tw_softmax_s8_table_dsp",
        ("softmax",),
        "tw_softmax_table_dsp",
        isa="dsp",
        applies=(a_table_pays,),
        flash=lambda graph, op: 4 * softmax.counted(softmax.parameters(graph, op)).size,
    ),
    Variant("tw_softmax_s8", ("softmax",), "tw_softmax"),
    Variant("tw_log_softmax_s8", ("log_softmax",), "tw_log_softmax"),
    Variant("tw_l2_normalization_s8", ("l2_normalization",), "tw_l2_normalization"),
    Variant("tw_lookup_s8", ("logical_not",), "tw_lookup", BOOL),
    Variant("tw_lookup_s8", TABLES, "tw_lookup"),
    Variant("tw_logistic_s16", ("logistic",), "tw_sigmoid_s16", S16),
    Variant("tw_tanh_s16", ("tanh",), "tw_sigmoid_s16", S16),
    Variant("tw_softmax_s16", ("softmax",), "tw_softmax_s16_tables", S16, has_part=False),
    Variant("tw_softmax_s8_s16", ("softmax",), "tw_softmax", ("int8", "int16"), has_part=False),
)
