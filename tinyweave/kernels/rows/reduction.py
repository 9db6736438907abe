"""Kernels of reductions."""

from __future__ import annotations

from functools import partial

from ..cycle_features import selections, sums
from ..mve import weights as mve
from ..requirements import reduced_axes_form_2_runs
from ..variant import BOOL, S16, Variant

row = partial(Variant, applies=(reduced_axes_form_2_runs,))
mean = partial(row, kinds=("mean", "sum"), params="tw_mean", has_rows=True, features=partial(sums, at_once=4))
extremum = partial(row, "tw_reduce_extremum_s8", params="tw_reduce_extremum", has_part=False)
arg_max = partial(Variant, kinds=("arg_max", "arg_min"), params="tw_arg_max", has_part=False)

ROWS: tuple[Variant, ...] = (
    mean("tw_mean_s8_mve", isa="mve", features=partial(sums, at_once=mve.LANES)),
    mean("tw_mean_s8_dsp", isa="dsp"),
    mean("tw_mean_s8"),
    row("tw_mean_s16", ("mean",), "tw_mean", types=S16, has_part=False),
    extremum(kinds=("reduce_any", "reduce_all"), types=BOOL),
    extremum(kinds=("reduce_max", "reduce_min")),
    row("tw_reduce_prod_s8", ("reduce_prod",), "tw_reduce_prod", has_part=False),
    arg_max("tw_arg_max_s8_s32", types=("int8", "int32")),
    arg_max("tw_arg_max_s8_s64", types=("int8", "int64")),
    Variant("tw_topk_v2_s8", ("topk_v2",), "tw_topk_v2", has_part=False, features=selections),
)
