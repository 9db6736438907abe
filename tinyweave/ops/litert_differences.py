"""DIFFERENCES: the ops of a file for which LiteRT's reference kernel computes other numbers than their scales and types mean.

LiteRT does not reject such an op. A row states what tinyweave does: refuse it, compute LiteRT's bytes ("follow"), or compute
what the scales mean and compare the C with numpy alone ("leave out"). `bench/fuzzing/litert_kernels.py` searches for more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from ..ir import Graph, Op
from .elementwise import mul_rescale
from .recurrent.svdf import STATE

Predicate = Callable[[Graph, Op], bool]


class Difference(NamedTuple):
    """Ops of these kinds and form, what LiteRT does, and what we do; `applies` says whether an op to leave out has the form."""

    kinds: tuple[str, ...]
    form: str
    litert: str  # continues "LiteRT's kernel"
    ours: Literal["refuse", "follow", "leave out"]
    applies: Predicate | None = None


MOVED = ("transpose", "space_to_batch_nd", "batch_to_space_nd")
DIFFERENCES = (
    Difference(
        MOVED,
        "int64 operand",
        "reads the int64 operand as int32",
        "leave out",
        lambda graph, op: any(t is not None and t.dtype == "int64" for t in graph.inputs_of(op)[1:]),
    ),
    Difference(
        ("concatenation",),
        "int16 inputs of different scales",
        "copies int16 inputs of other scales than the output's without rescaling them",
        "leave out",
        lambda graph, op: bool(op.attrs.get("rescaled")) and graph.output(op).dtype == "int16",
    ),
    Difference(
        ("greater", "greater_equal", "less", "less_equal"),
        "int16 inputs of different scales",
        "compares the stored integers of int16 inputs, whatever their scales",
        "refuse",
    ),
    Difference(
        ("minimum", "maximum"), "different scales", "compares and copies the stored integers, whatever their scales", "follow"
    ),
    Difference(
        ("add", "sub", "maximum", "minimum", "mean", "prelu", "select_v2", "conv_2d"),
        "int8 and uint8 in one op",
        "reads int8 and uint8 tensors of an op as one type",
        "refuse",
    ),
    Difference(("gather_nd",), "quantised constants, float32 output", "copies the stored integers", "refuse"),
    Difference(("prelu",), "int16 slopes", "reads int16 slopes as int8", "refuse"),
    Difference(
        ("add", "sub"), "int16, scales that are powers of two, pot_scale_int16", "rescales by shifts that truncate", "refuse"
    ),
    Difference(
        ("conv_2d", "transpose_conv"),
        "int16, an int32 bias that the options do not name",
        "reads the int32 bias as int64",
        "refuse",
    ),
    Difference(("add", "conv_2d"), "integers, fused tanh", "ignores the fused tanh", "refuse"),
    Difference(
        ("svdf",),
        "int8 time weights and variable",
        "reads the int8 time weights and the int8 variable as int16",
        "leave out",
        lambda graph, op: graph.input(op, STATE).dtype == "int8",
    ),
    Difference(
        ("sum",), "int8", "reads the int8 operand as uint8", "leave out", lambda graph, op: graph.input(op).dtype == "int8"
    ),
    Difference(
        ("div",),
        "small quotients",
        "shifts small quotients right by more than 31 bits, which C does not define",
        "leave out",
        # 0 divided by a number of 8 bits is shifted furthest
        lambda graph, op: graph.input(op).dtype == "int8" and 31 + 7 - mul_rescale(graph, op).shift > 31,
    ),
    Difference(
        ("detection_postprocess",),
        "uint8 boxes, other anchors",
        "reads anchors beside uint8 boxes as uint8",
        "leave out",
        lambda graph, op: graph.input(op).dtype == "uint8" != graph.input(op, 2).dtype,
    ),
    Difference(
        ("detection_postprocess",),
        "outputs inside the network",
        "leaves outputs behind the last detection undefined",
        "leave out",
        # `OpSpec.defined` corrects outputs of the network only
        lambda graph, op: not op.attrs["use_regular_nms"] and not {*op.outputs} <= {*graph.outputs},
    ),
)


def difference(graph: Graph, op: Op) -> Difference | None:
    """Return the first row for which LiteRT is left out of the comparison of an op of an imported graph, or None."""
    rows = (row for row in DIFFERENCES if op.kind in row.kinds and row.applies is not None)
    return next((row for row in rows if row.applies is not None and row.applies(graph, op)), None)
