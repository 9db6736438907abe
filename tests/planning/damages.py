"""A table of damaged plans: (the plan, the damage, a part of the check's message) by name."""

from __future__ import annotations

from dataclasses import replace

from planning.damage import (
    Damage,
    channels,
    flash_heavy,
    kernels,
    lived,
    moved,
    onto,
    placed,
    resized,
    ringed,
    rows_of,
    schedule_rows,
    staged,
    tiled,
    without_ring,
)

from tinyweave.planning import Tile
from tinyweave.planning.plan import Place, RowSchedule

# name -> (plan, damage, part of the message)
DAMAGES: dict[str, tuple[str, Damage, str]] = {
    "a kernel too few": ("layers", lambda p: replace(p, variants=p.variants[1:]), "4 kernels for 5 ops"),
    "a kernel of another kind": (
        "layers",
        lambda p: kernels(p, softmax_4="tw_mean_s8"),
        "the kernel 'tw_mean_s8' cannot run softmax_4: it does not run softmax on int8 -> int8",
    ),
    "a kernel of other types": ("layers", lambda p: kernels(p, conv_2d_0="tw_conv_2d_s16"), "'tw_conv_2d_s16' cannot run"),
    "an unknown kernel": ("layers", lambda p: kernels(p, conv_2d_0="tw_conv"), "'tw_conv' cannot run"),
    "a kernel whose condition the op does not meet": (
        "layers",
        lambda p: kernels(p, conv_2d_0="tw_conv_2d_s8_w4"),
        "cannot run conv_2d_0: it requires that the weights are int4, but they are int8",
    ),
    "a kernel for a filter of another size, in a tile": (
        "tiles",
        lambda p: kernels(p, depthwise_conv_2d_1="tw_depthwise_5x5_s8_lean_dsp"),
        "cannot run depthwise_conv_2d_1: it requires that the window is 5x5",
    ),
    "a portable kernel for weights of another form": (
        "int4 weights",
        lambda p: kernels(p, conv_2d_2="tw_conv_2d_s8"),
        "cannot run conv_2d_2: it requires that the weights are int8, but they are int4",
    ),
    "kernels that no core has together": (
        "rings",
        lambda p: kernels(p, conv_2d_0="tw_conv_2d_s8_scalar", depthwise_conv_2d_1="tw_depthwise_3x3_s8_lean_dsp"),
        "no core has the instructions of tw_conv_2d_s8_scalar and tw_depthwise_3x3_s8_lean_dsp",
    ),
    "a buffer aligned to three words": (
        "layers",
        lambda p: replace(p, buffers=tuple(replace(b, align=12) if b.name == p.graph.inputs[0] else b for b in p.buffers)),
        "aligned to 12",
    ),
    "a copy of constants without a buffer": (
        "constants in RAM",
        lambda p: replace(p, copies={**p.copies, "other": ("conv_2d_0",)}),
        "there is no buffer 'other.copy' for the copy of constants",
    ),
    "a copy of constants that is claimed after the first step only": (
        "constants in RAM",
        lambda p: lived(p, "bias.copy", start=1),
        "the copy 'bias.copy' is claimed in the steps 1 to 5, but kept in all",
    ),
    "a copy of constants on the last word of another": (
        "constants in RAM",
        lambda p: onto(p, "bias.copy", "weights.copy", 60),
        "the copy 'weights.copy' shares bytes with ['bias.copy']",
    ),
    "a copy of constants on the last word of an activation that dies before": (
        "constants in RAM",
        lambda p: onto(p, "weights.copy", p.graph.inputs[0], p.buffer(p.graph.inputs[0]).bytes - 4),
        "the copy 'weights.copy' shares bytes with",
    ),
    "a copy of constants for an unknown op": (
        "constants in RAM",
        lambda p: replace(p, copies={**p.copies, "bias": ("conv_2d_9",)}),
        "the copy 'bias.copy' is read by ('conv_2d_9',), not by some ops that run a kernel",
    ),
    "a copy of constants for an op twice": (
        "constants in RAM",
        lambda p: replace(p, copies={**p.copies, "bias": ("conv_2d_0", "conv_2d_0")}),
        "not by some ops that run a kernel",
    ),
    "a copy of constants for no op": ("constants in RAM", lambda p: replace(p, copies={**p.copies, "bias": ()}), "read by ()"),
    "constants that are read a step too early": (
        "constants read by a callback",
        lambda p: lived(onto(p, "bias.copy", "weights_conv_2d_0.copy", 60), "bias.copy", start=0),
        "the copy 'weights_conv_2d_0.copy' shares bytes with ['bias.copy']",
    ),
    "constants that are read early on an activation that dies before their step": (
        "constants read by a callback",
        lambda p: lived(onto(p, "bias.copy", p.graph.inputs[0]), "bias.copy", start=0),
        "the copy 'bias.copy' shares bytes with ['image'",
    ),
    "constants that are read before the first step": (
        "constants read by a callback",
        lambda p: lived(p, "bias.copy", start=-1),
        "the copy 'bias.copy' is claimed in the steps -1 to 3, but read for step 2",
    ),
    "constants that die before their step": (
        "constants read by a callback",
        lambda p: lived(p, "bias.copy", start=1, end=2),
        "the copy 'bias.copy' is claimed in the steps 1 to 2, but read for step 2",
    ),
    "constants that are read before the step of another op": (
        "constants read by a callback",
        lambda p: lived(p, "bias.copy", start=4, end=5),
        "the copy 'bias.copy' is claimed in the steps 4 to 5, but read for step 2",
    ),
    "constants of functions besides invoke that are not kept": (
        "constants read by a callback",
        lambda p: lived(p, "ends.copy", end=5),
        "the copy 'ends.copy' is claimed in the steps 0 to 5, but kept in all",
    ),
    "constants on the last word of an operand of their step": (
        "constants read by a callback",
        lambda p: onto(p, "bias.copy", "conv:moved_1"),
        "the copy 'bias.copy' shares bytes with ['conv:moved_1'",
    ),
    "constants on the scratch of their step": (
        "constants read by a callback",
        lambda p: onto(p, "bias.copy", "depthwise_conv_2d_1.scratch"),
        "the copy 'bias.copy' shares bytes with ['depthwise_conv_2d_1.scratch'",
    ),
    "constants on other constants of their step": (
        "constants read by a callback",
        lambda p: onto(p, "bias.copy", "weights_depthwise_conv_2d_1.copy", 60),
        "the copy 'weights_depthwise_conv_2d_1.copy' shares bytes with ['bias.copy']",
    ),
    "kept constants on an activation of a later step": (
        "constants read by a callback",
        lambda p: onto(p, "ends.copy", "scores"),
        "the copy 'ends.copy' shares bytes with",
    ),
    "constants that two ops read": (
        "constants read by a callback",
        lambda p: replace(p, copies={**p.copies, "bias": ("conv_2d_0", "depthwise_conv_2d_1")}),
        "not by one op that runs a kernel",
    ),
    "constants that an op and another function read": (
        "constants read by a callback",
        lambda p: replace(p, copies={**p.copies, "bias": ("depthwise_conv_2d_1", "")}),
        "not by one op that runs a kernel",
    ),
    "copied constants that another function reads": (
        "constants in RAM",
        lambda p: replace(p, copies={**p.copies, "bias": ("",)}),
        "not by some ops that run a kernel",
    ),
    "scratch that no kernel uses": ("layers", lambda p: replace(p, scratch=4), "the scratch claimed is 4 bytes, the most"),
    "less scratch than a kernel uses": ("scratch", lambda p: replace(p, scratch=0), "the scratch claimed is 0 bytes, the most"),
    "a buffer that ends before it is read": (
        "layers",
        lambda p: lived(p, p.graph.outputs[0], end=len(p.stages) - 1),
        "is claimed in the steps 4 to 4 of 5, but used in 4",
    ),
    "a buffer that begins after it is written": ("layers", lambda p: lived(p, p.graph.inputs[0], start=1), "but used in 0"),
    "a buffer that is alive after the last step": (
        "layers",
        lambda p: lived(p, p.graph.outputs[0], end=len(p.stages) + 1),
        "to 6 of 5",
    ),
    "a fused stage without a row schedule": ("rings", lambda p: staged(p, schedule=None), "no row schedule"),
    "a row schedule without a fused stage": ("rings", lambda p: staged(p, tiles=None), "no row schedule"),
    "two ops on whole tensors": (
        "layers",
        lambda p: replace(p, stages=(replace(p.stages[0], ops=(0, 1)), *p.stages[2:])),
        "only its first op would run",
    ),
    "reads and writes of state in another order": (
        "state",
        lambda p: replace(p, stages=(*p.stages[:5], p.stages[7], p.stages[5], p.stages[6])),
        "the state 'calls' run in the order [7, 5]",
    ),
    "streaming of what is no input": ("sums", lambda p: replace(p, streamed_inputs=("conv",)), "'conv' is streamed, but"),
    "an input that no schedule streams in": ("rings", lambda p: replace(p, streamed_inputs=("x",)), "schedules stream in []"),
    "an input that is not streamed": ("sums", lambda p: replace(p, streamed_inputs=()), "but the streamed inputs are []"),
    "an input streamed out": (
        "layers",
        lambda p: replace(p, streamed_outputs=("image",)),
        "no output of the network that an op computes",
    ),
    "an input that is returned streamed out": (
        "layers",
        lambda p: replace(p, streamed_outputs=("image",), graph=replace(p.graph, outputs=("image", "scores"))),
        "no output of the network that an op computes",
    ),
    "an output that is read streamed out": (
        "layers",
        lambda p: replace(p, streamed_outputs=("dw",), graph=replace(p.graph, outputs=("dw", "scores"))),
        "'dw' is a streamed output, but an op reads it",
    ),
    "an output of no fused stage streamed out": (
        "layers",
        lambda p: replace(p, streamed_outputs=("scores",)),
        "no fused stage",
    ),
    "a tensor in no buffer": ("layers", lambda p: placed(p, conv=Place("lost")), "'conv' is in no buffer"),
    "a tensor without a place": (
        "rings",
        lambda p: replace(p, places={name: at for name, at in p.places.items() if name != "wide"}),
        "'wide' is in no buffer",
    ),
    "scratch that is too small": (
        "scratch",
        lambda p: resized(p, "conv_2d_0.scratch", 4),
        "bytes of scratch in a buffer 'conv_2d_0.scratch'",
    ),
    "scratch of a fused stage that is too small": (
        "rows with scratch",
        lambda p: resized(p, "conv_2d_0.scratch", 4),
        "bytes of scratch in a buffer 'conv_2d_0.scratch'",
    ),
    "a kernel with scratch where none was planned": (
        "rings",
        lambda p: kernels(p, conv_2d_0="tw_conv_2d_s8_dsp"),
        "bytes of scratch in a buffer 'conv_2d_0.scratch'",
    ),
    "a layer without code": ("layers", lambda p: kernels(p, conv_2d_0=""), "conv_2d_0 is not a view and has no kernel"),
    "one tensor joined twice without code": (
        "parts",
        lambda p: replace(p, graph=replace(p.graph, ops=(*p.graph.ops[:3], replace(p.graph.ops[3], inputs=("c", "c"))))),
        "concatenation_3 is not a view and has no kernel",
    ),
    "channels cut without code": (
        "parts",
        lambda p: replace(p, graph=replace(p.graph, tensors={**p.graph.tensors, **channels(p.graph)})),
        "the elements of 'a' are not contiguous",
    ),
    "a row schedule of other ops": ("rings", lambda p: staged(p, ops=(0, 1, 3, 2)), "a row schedule for other ops"),
    "a tile of ops in another order": (
        "tiles",
        lambda p: staged(p, tiles=(Tile((1, 0, 2), 5, 2),)),
        "a row schedule for other ops",
    ),
    "a kernel without a form for rows": (
        "rings",
        lambda p: kernels(p, conv_2d_0="tw_conv_2d_s8_copying_dsp"),
        "conv_2d_0 cannot run by rows",
    ),
    "no kernel in a fused stage": ("rings", lambda p: kernels(p, relu_3=""), "relu_3 cannot run by rows"),
    "a timing that stands still": ("rings", lambda p: schedule_rows(p, 1, every=0), "the node 1 has an impossible timing"),
    "a tile of no columns": ("tiles", lambda p: staged(p, tiles=(Tile((0, 1, 2), 0, 2),)), "is 0 columns wide"),
    "a ring of what comes from before": ("rings", lambda p: ringed(p, x=9), "keeps 9 rows of 'x'"),
    "a ring larger than its buffer": ("rings", lambda p: ringed(p, wide=4), "the ring of 'wide' needs 768 bytes"),
    "a tile larger than its buffer": ("tiles", lambda p: tiled(p, wide=(5, 8)), "the tile of 'wide' has 5 x 8 pixels"),
    "rows that are not streamed out": (
        "rows streamed out",
        lambda p: schedule_rows(p, 4, rows=11),
        "only 11 rows of 'classes' are streamed out",
    ),
    "rows streamed out from a ring that holds more": (
        "rows streamed out",
        lambda p: flash_heavy(p, "classes", 2),
        "row 1 of 'classes' is streamed out from outside",
    ),
    "rows streamed out of a whole map": (
        "rows streamed out",
        lambda p: without_ring(p, "classes"),
        "row 1 of 'classes' is streamed out from outside",
    ),
    "scratch over the row that is written": (
        "rows with scratch",
        lambda p: onto(p, "wide", "conv_2d_0.scratch"),
        "the scratch of conv_2d_0 overlaps its row",
    ),
    "a row over one that its kernel reads": (
        "rings",
        lambda p: onto(p, "deep", "wide"),
        "row 0 of depthwise_conv_2d_1 is written over row 0 of 'wide'",
    ),
    "a row over its own operand's row, a little after it": (
        "rings",
        lambda p: onto(p, "last", "thin", 4),
        "row 0 of relu_3 is written over row 0 of 'thin'",
    ),
    "a row of a kernel that widens it over its operand's row": (
        "rings",
        lambda p: onto(p, "wide", "x"),
        "row 0 of conv_2d_0 is written over row 0 of 'x'",
    ),
    "sums over a row that is summed up": (
        "sums",
        lambda p: onto(p, "mean_2.scratch", "dw"),
        "the sums of mean_2 overlap its operand",
    ),
    "a ring over sums": (
        "sums",
        lambda p: moved(flash_heavy(p, "image", 6), **{"mean_2.scratch": 4096}),
        "the sums of mean_2 are overwritten before row 1",
    ),
    "sums that are too small": ("sums", lambda p: resized(p, "mean_2.scratch", 4), "mean_2 needs 16 bytes of scratch"),
    "a ring of fewer rows than an iteration": (
        "streamed",
        lambda p: ringed(p, classes=1),
        "the ring of 'classes' has no room for the rows of an iteration",
    ),
    "a tile that is no tile": (
        "tiles",
        lambda p: moved(
            staged(
                resized(p, "conv_2d_2.tiles", -4096), schedule=replace(rows_of(p), tiles={"wide": rows_of(p).tiles["wide"]})
            ),
            **{"conv_2d_2.tiles": 4096},
        ),
        "'deep' is computed in a tile, but no later op of the tile reads it",
    ),
    "a tile whose last op reads none of it": (
        "tiles",
        lambda p: replace(
            p, graph=replace(p.graph, ops=(*p.graph.ops[:2], replace(p.graph.ops[2], inputs=("wide", "w2")), p.graph.ops[3]))
        ),
        "'deep' is computed in a tile, but no later op of the tile reads it",
    ),
    "an op without a window in a tile": (
        "an enlarged map",
        lambda p: staged(
            p,
            tiles=(Tile((4, 5), 5),),
            schedule=RowSchedule(
                {node: timing for node, timing in rows_of(p).timings.items() if node != 4},
                {name: rows for name, rows in rows_of(p).line_buffers.items() if name != "small"},
                {"small": (1, 6)},
            ),
        ),
        "resize_bilinear_5 has no window",
    ),
    "tiles that overlap where columns stay": (
        "a long tile",
        lambda p: placed(p, thin=replace(p.places["wide"], offset=p.places["wide"].offset + 5 * 16)),
        "reads cells of 'wide' that are not intact",
    ),
    "a tile over a row that only its second iteration reads": (
        "a tile of the end",
        lambda p: moved(flash_heavy(p, "deep", 6), **{"relu_3.tiles": 4096 + 4 * 12 * 16}),
        "conv_2d_2 is written over row 4 of 'deep', which it reads",
    ),
    "a part over what it reads": (
        "tiles",
        lambda p: onto(p, "x", "conv_2d_2.tiles", p.places["wide"].offset),
        "of conv_2d_0 is written over row 0 of 'x', which it reads",
    ),
}
