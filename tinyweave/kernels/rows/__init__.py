"""The rows of the table of kernels, one file per family of similar ops.

The rows of a family are tried in their order, fastest first. An op is run by the first kernel that the core has, that takes the
op's types, and whose requirements the op meets.
"""

from __future__ import annotations

from ..variant import Variant
from . import (
    binary,
    conv_2d,
    conversion,
    depthwise_conv_2d,
    detection,
    fully_connected,
    movement,
    reduction,
    sampling,
    state,
    unary,
)

# the order of families does not matter: no op kind is in two of them
FAMILIES = (
    conv_2d,
    depthwise_conv_2d,
    fully_connected,
    sampling,
    reduction,
    binary,
    unary,
    conversion,
    movement,
    state,
    detection,
)
VARIANTS: tuple[Variant, ...] = tuple(row for family in FAMILIES for row in family.ROWS)
