"""Kernels of reductions."""

from __future__ import annotations

from .. import overlap_distance as distance
from ..requirements import reduced_axes_form_2_runs
from ..variant import Variant

ROWS: tuple[Variant, ...] = (
    Variant("tw_mean_s8", ("mean",), "tw_mean", has_rows=True, applies=(reduced_axes_form_2_runs,), distance=distance.reduced),
    Variant(
        "tw_reduce_extremum_s8",
        ("reduce_max", "reduce_min"),
        "tw_reduce_extremum",
        has_part=False,
        applies=(reduced_axes_form_2_runs,),
        distance=distance.reduced,
    ),
    Variant("tw_arg_max_s8_s32", ("arg_max",), "tw_arg_max", ("int8", "int32"), has_part=False, distance=distance.reduced),
    Variant("tw_arg_max_s8_s64", ("arg_max",), "tw_arg_max", ("int8", "int64"), has_part=False, distance=distance.reduced),
)
