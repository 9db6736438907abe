"""The rows of the table of kernels, by family of ops.

The rows of a family are tried in their order, fastest first: the first one that is for the core and the types, and whose
requirements the op meets, runs it.
"""

from __future__ import annotations

from ..variant import Variant
from . import (
    binary,
    conv_2d,
    conversion,
    depthwise_conv_2d,
    fully_connected,
    movement,
    reduction,
    sampling,
    state,
    unary,
)

# no op kind is in two families, so that their order is of no importance
FAMILIES = (conv_2d, depthwise_conv_2d, fully_connected, sampling, reduction, binary, unary, conversion, movement, state)
VARIANTS: tuple[Variant, ...] = tuple(row for family in FAMILIES for row in family.ROWS)
