"""A table of damaged plans: (the plan, the damage, a part of the check's message) by name."""

from __future__ import annotations

from dataclasses import replace

from planning.damage import (
    Damage,
    channels,
    end_of,
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
    "a stage left out": ("layers", lambda p: replace(p, stages=p.stages[:-1]), "not every op exactly once"),
    "a stage run twice": ("layers", lambda p: replace(p, stages=(*p.stages, p.stages[-1])), "not every op exactly once"),
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
    "an offset that is not aligned": ("layers", lambda p: moved(p, scores=p.offsets["scores"] + 1), "'scores' is at 1"),
    "an offset below the memory": ("layers", lambda p: moved(p, scores=-4), "'scores' is at -4"),
    "a buffer without an offset": ("layers", lambda p: replace(p, offsets={}), "'image' is at -1"),
    "a buffer in no memory": ("layers", lambda p: replace(p, arena={"dtcm": p.arena["sram"]}), "in 'sram', aligned to 4"),
    "a buffer with less alignment": (
        "rings",
        lambda p: moved(
            replace(p, buffers=tuple(replace(b, align=1) if b.name == "wide" else b for b in p.buffers)), wide=4097
        ),
        "the buffer 'wide' is at 4097 in 'sram', aligned to 1",
    ),
    "an arena that is larger than its use": ("layers", lambda p: replace(p, arena={"sram": p.arena["sram"] + 1}), "claimed"),
    "an arena that is smaller than its use": ("rings", lambda p: replace(p, arena={"sram": p.arena["sram"] - 1}), "claimed"),
    "an arena that is smaller than its use in one memory": (
        "two memories",
        lambda p: replace(p, arena={m: size - (m == "slow") for m, size in p.arena.items()}),
        "the arenas claimed",
    ),
    "a tensor in no buffer": ("layers", lambda p: placed(p, conv=Place("lost")), "'conv' is in no buffer"),
    "a tensor without a place": (
        "rings",
        lambda p: replace(p, places={name: at for name, at in p.places.items() if name != "wide"}),
        "'wide' is in no buffer",
    ),
    "a part that is not aligned": ("parts", lambda p: placed(p, a=Place("x", 2)), "'a' is at 2, not at a multiple of 4"),
    "a wide element that is not aligned": (
        "longs",
        lambda p: moved(replace(p, buffers=tuple(replace(b, align=4) if b.name == "index" else b for b in p.buffers)), index=4),
        "'index' is at 4, not at a multiple of 8",
    ),
    "a buffer smaller than its tensor": ("layers", lambda p: resized(p, "image", 1), "'image' leaves its buffer"),
    "a part before its buffer": ("parts", lambda p: placed(p, a=Place("x", -4)), "'a' leaves its buffer"),
    "state under a layer's output": ("state", lambda p: onto(p, "past", "y"), "the state 'past' shares bytes with"),
    "state under the input": ("state", lambda p: onto(p, "past", "x"), "the state 'past' shares bytes with"),
    "stages in an impossible order": (
        "layers",
        lambda p: replace(p, stages=p.stages[::-1]),
        "reads 'logits', which is",
    ),
    "an output over what is read later": ("copies", lambda p: onto(p, "c", "b"), "reads 'b', which is no longer intact"),
    "a ring over what is read later": (
        "streamed",
        lambda p: replace(p, streamed_outputs=()),
        "the end of the network reads 'classes'",
    ),
    "the scratch over an operand": (
        "scratch",
        lambda p: onto(p, "conv_2d_0.scratch", "image"),
        "the scratch of conv_2d_0 overlaps an operand",
    ),
    "an output over its own input": ("layers", lambda p: onto(p, "conv", "image"), "conv_2d_0 writes over its own operand"),
    "an output closer to its input than its kernel allows": (
        "layers",
        lambda p: onto(p, "dw", "conv"),
        "depthwise_conv_2d_1 writes over its own operand",
    ),
    "an output over another": (
        "copies",
        lambda p: onto(p, "b", "a"),
        "split_0 writes over its own output",
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
    "a part that begins later": ("parts", lambda p: placed(p, a=Place("x", 4)), "split_0 moves its view"),
    "a view elsewhere": ("parts", lambda p: placed(p, a=Place("w", 0)), "split_0 moves its view"),
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
    "a timing that begins before the stage": (
        "rings",
        lambda p: schedule_rows(p, 1, first=-1),
        "the node 1 has an impossible timing",
    ),
    "a timing that stands still": ("rings", lambda p: schedule_rows(p, 1, every=0), "the node 1 has an impossible timing"),
    "iterations of no row": (
        "streamed",
        lambda p: schedule_rows(p, "image", rows_per_iteration=0),
        "the node image has an impossible timing",
    ),
    "several rows of an op by itself": (
        "rings",
        lambda p: schedule_rows(p, 1, rows_per_iteration=2),
        "computes 2 rows in an iteration",
    ),
    "more rows in an iteration than the tile": (
        "tiles",
        lambda p: schedule_rows(p, 2, rows_per_iteration=3),
        "computes 3 rows in an iteration",
    ),
    "a tile of no columns": ("tiles", lambda p: staged(p, tiles=(Tile((0, 1, 2), 0, 2),)), "is 0 columns wide"),
    "a ring of no row": ("rings", lambda p: ringed(p, wide=0), "keeps 0 rows of 'wide'"),
    "a ring of what comes from before": ("rings", lambda p: ringed(p, x=9), "keeps 9 rows of 'x'"),
    "a ring larger than its buffer": ("rings", lambda p: ringed(p, wide=4), "the ring of 'wide' needs 768 bytes"),
    "a buffer smaller than its ring": ("streamed", lambda p: resized(p, "classes", 4), "the ring of 'classes' needs 144 bytes"),
    "a tile larger than its buffer": ("tiles", lambda p: tiled(p, wide=(5, 8)), "the tile of 'wide' has 5 x 8 pixels"),
    "a tile that leaves its buffer": (
        "tiles",
        lambda p: placed(p, wide=replace(p.places["wide"], offset=p.places["wide"].offset + 4)),
        "the tile of 'wide' has 4 x 7 pixels",
    ),
    "rows that are not streamed out": (
        "rows streamed out",
        lambda p: schedule_rows(p, 4, rows=11),
        "only 11 rows of 'classes' are streamed out",
    ),
    "rows that are not computed": ("rings", lambda p: schedule_rows(p, 3, rows=8), "the stage leaves 'last' incomplete"),
    "an output over another of the same stage": (
        "rings",
        lambda p: onto(p, "thin", "last"),
        "the stage leaves 'last' incomplete",
    ),
    "rows beyond the map": ("rings", lambda p: schedule_rows(p, 3, rows=10), "row 9 of 'last' is computed, which has 9"),
    "rows beyond the input": (
        "streamed",
        lambda p: schedule_rows(p, "image", rows=13),
        "row 12 of 'image' is computed, which has 12",
    ),
    "rows beyond the map in a tile": (
        "tiles",
        lambda p: schedule_rows(p, 2, rows=10),
        "row 9 of 'thin' is computed, which has 9",
    ),
    "an op that runs too early": (
        "rings",
        lambda p: schedule_rows(p, 1, first=0),
        "reads row 1 of 'wide', which is not intact",
    ),
    "an input that comes too late": (
        "streamed",
        lambda p: schedule_rows(p, "image", first=2),
        "of 'image', which is not intact",
    ),
    "an op that runs too late": ("rings", lambda p: schedule_rows(p, 3, first=2), "reads row 0 of 'thin', which is not intact"),
    "an op that runs too seldom": ("rings", lambda p: schedule_rows(p, 1, every=2), "of 'deep', which is not intact"),
    "a ring of too few rows": ("rings", lambda p: ringed(p, wide=2), "of 'wide', which is not intact"),
    "a ring of an input of too few rows": ("streamed", lambda p: ringed(p, image=2), "of 'image', which is not intact"),
    "a ring of what is summed up over another": ("sums", lambda p: onto(p, "image", "dw"), "of 'image', which is not intact"),
    "a row that is summed up too early": ("sums", lambda p: schedule_rows(p, 2, first=2), "mean_2 reads row 0 of 'dw'"),
    "a ring over what comes from before": ("rings", lambda p: onto(p, "deep", "x"), "of 'x', which is not intact"),
    "a skip whose ring is too short": ("streamed", lambda p: ringed(p, stem=4), "of 'stem', which is not intact"),
    "scratch over a row that is read": (
        "rows with scratch",
        lambda p: onto(p, "x", "conv_2d_0.scratch"),
        "conv_2d_0 reads row 0 of 'x', which is not intact",
    ),
    "scratch over a row that an op of a tile reads": (
        "tiles with scratch",
        lambda p: onto(p, "x", "conv_2d_0.scratch"),
        "conv_2d_0 reads row 0 of 'x', which is not intact",
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
    "an output over its sums": ("sums", lambda p: onto(p, "features", "mean_2.scratch"), "mean_2 writes over its sums"),
    "sums that are too small": ("sums", lambda p: resized(p, "mean_2.scratch", 4), "mean_2 needs 16 bytes of scratch"),
    "sums that are not turned into the output": ("sums", lambda p: schedule_rows(p, 2, rows=3), "leaves 'features' incomplete"),
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
            p,
            graph=replace(p.graph, ops=(*p.graph.ops[:2], replace(p.graph.ops[2], inputs=("wide", "w2")), p.graph.ops[3])),
        ),
        "'deep' is computed in a tile, but no later op of the tile reads it",
    ),
    "scratch over a tile": (
        "tiles with scratch",
        lambda p: onto(p, "conv_2d_2.tiles", "conv_2d_0.scratch"),
        "the scratch of depthwise_conv_2d_1 overlaps its part",
    ),
    "scratch over the rows of a tile": (
        "tiles with scratch",
        lambda p: onto(p, "thin", "conv_2d_0.scratch"),
        "the scratch of conv_2d_2 overlaps its part",
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
    "a tile of too few rows": ("tiles", lambda p: tiled(p, wide=(3, 7)), "the tile of 'wide' has no room for 4 x"),
    "a tile of too few columns": ("tiles", lambda p: tiled(p, wide=(4, 6)), "the tile of 'wide' has no room for"),
    "more columns at a time than the tile has": (
        "tiles",
        lambda p: staged(p, tiles=(Tile((0, 1, 2), 6, 2),)),
        "the tile of 'deep' has no room for",
    ),
    "two tiles on the same bytes": (
        "tiles",
        lambda p: placed(p, deep=p.places["wide"]),
        "writes over the tile of 'wide', which it reads",
    ),
    "tiles that overlap where columns stay": (
        "a long tile",
        lambda p: placed(p, thin=replace(p.places["wide"], offset=p.places["wide"].offset + 5 * 16)),
        "reads cells of 'wide' that are not intact",
    ),
    "an outside map over a tile": ("tiles", lambda p: onto(p, "x", "conv_2d_2.tiles"), "of 'x', which is not intact"),
    "a last row over its tile": (
        "a tall tile",
        lambda p: moved(p, x=8192, **{"depthwise_conv_2d_1.tiles": end_of(p, "deep") - 16}),
        "depthwise_conv_2d_1 writes over the tile of 'wide'",
    ),
    "scratch over a last row": (
        "a tall tile with scratch",
        lambda p: moved(p, x=8192, **{"depthwise_conv_2d_1.tiles": 16384, "conv_2d_0.scratch": end_of(p, "deep") - 4}),
        "the scratch of depthwise_conv_2d_1 overlaps its part",
    ),
    "a last row over one that its tile reads": (
        "a tall tile",
        lambda p: moved(p, x=end_of(p, "deep") - end_of(p, "x") + p.offsets["x"]),
        "conv_2d_0 reads row 23 of 'x', which is not intact",
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
