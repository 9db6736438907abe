"""Sound plans, and functions that change one number of a plan: an offset, a line buffer, a timing, a tile, a kernel."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from cases.maps import block, segmentation
from cases.tiny import NETWORKS, activation, constant
from cases.tiny import graph as tiny
from fuzz.faster_kernels import with_kernels_of
from planning.stages import plan_in_stages

from tinyweave.ir import Graph, Op, Tensor
from tinyweave.planning import Constant, Plan, Request, Tile, check, plan, plan_in_order, with_copies, with_fetches
from tinyweave.planning.check import UnsoundPlanError
from tinyweave.planning.memories import distribute
from tinyweave.planning.plan import Place, RowSchedule

FOLDER = Path(sys.modules[UnsoundPlanError.__module__].__file__ or "").parent

Damage = Callable[[Plan], Plan]


def cuts() -> Graph:
    """Return a network that cuts a map into two halves of rows, reads each, and joins them again."""
    x, a, b, c, d, whole = (activation(n, (1, rows, 6, 4)) for n, rows in zip("xabcdw", (8, 4, 4, 4, 4, 8), strict=True))
    axis = constant("axis", np.array(1, np.int32))
    ops = [
        Op("split_0", "split", ("axis", "x"), ("a", "b")),
        Op("relu_1", "relu", ("a",), ("c",)),
        Op("relu_2", "relu", ("b",), ("d",)),
        Op("concatenation_3", "concatenation", ("c", "d"), ("w",), {"axis": 1, "activation": "none"}),
    ]
    return tiny("cuts", [x, a, b, c, d, whole, axis], ops, ("x",), ("w",))


def longs() -> Graph:
    """Return a network with an output of eight bytes per element."""
    tensors = [activation("x", (1, 4, 4, 2)), constant("axis", np.array(3, np.int32)), Tensor("index", (1, 4, 4), "int64")]
    return tiny("longs", tensors, [Op("arg_max_0", "arg_max", ("x", "axis"), ("index",))], ("x",), ("index",))


def narrow_weights(graph: Graph) -> Graph:
    """Return the network with int4 weights in all layers."""
    tensors = graph.tensors.values()
    narrow = {t.name: replace(t, dtype="int4", data=t.data // 16) for t in tensors if t.data is not None and t.dtype == "int8"}
    return replace(graph, tensors={**graph.tensors, **narrow})


SEGMENTATION = (0, 1, 2, 3, 4)

PLANS: dict[str, Callable[[], Plan]] = {
    "layers": lambda: plan(NETWORKS["chain"](), Request("layer")),
    "state": lambda: plan(NETWORKS["stream"](), Request("layer")),
    "parts": lambda: plan_in_order(cuts(), range(4), parts=True),
    "copies": lambda: plan_in_order(cuts(), range(4)),
    "longs": lambda: plan(longs()),
    "scratch": lambda: with_kernels_of(plan(NETWORKS["chain"](), Request("unfused")), "cortex-m4"),
    "sums": lambda: plan_in_stages(NETWORKS["chain"](), [(0, 1, 2), (3,), (4,)], streamed_inputs=("image",)),
    "rings": lambda: plan_in_stages(block(), [(0, 1, 2, 3)]),
    "rows with scratch": lambda: with_kernels_of(plan_in_stages(block(), [(0, 1, 2, 3)]), "cortex-m4"),
    "int4 weights": lambda: plan(narrow_weights(block()), Request("layer")),
    "tiles": lambda: plan_in_stages(block(), [(0, 1, 2), (3,)], tiles=(Tile((0, 1, 2), 5, 2),)),
    "tiles with scratch": lambda: with_kernels_of(
        plan_in_stages(block(), [(0, 1, 2), (3,)], tiles=(Tile((0, 1, 2), 5, 2),)), "cortex-m4"
    ),
    "a long tile": lambda: plan_in_stages(block(), [(0, 1, 2, 3)], tiles=(Tile((0, 1, 2, 3), 5, 2),)),
    "an enlarged map": lambda: plan_in_stages(
        segmentation(2, "resize_bilinear"), [(*SEGMENTATION, 5)], streamed_outputs=("classes",)
    ),
    "a tile of the end": lambda: plan_in_stages(block(), [(0, 1, 2, 3)], tiles=(Tile((2, 3), 5, 3),)),
    "a tall tile": lambda: plan_in_stages(block(25), [(0, 1), (2,), (3,)], tiles=(Tile((0, 1), 1),)),
    "a tall tile with scratch": lambda: with_kernels_of(
        plan_in_stages(block(25), [(0, 1), (2,), (3,)], tiles=(Tile((0, 1), 1),)), "cortex-m4"
    ),
    "constants in RAM": lambda: with_copies(
        made("layers"), [Constant("weights", 64, 4, ("conv_2d_0",)), Constant("bias", 8, 4, ("conv_2d_0",))], "sram"
    ),
    "constants read by a callback": lambda: with_fetches(
        made("scratch"),
        [
            Constant("ends", 32, 4, ("",)),
            Constant("weights_conv_2d_0", 64, 4, ("conv_2d_0",)),
            Constant("weights_depthwise_conv_2d_1", 64, 4, ("depthwise_conv_2d_1",)),
            Constant("bias", 7, 4, ("depthwise_conv_2d_1",)),
        ],
        "sram",
    ),
    "streamed": lambda: plan_in_stages(
        segmentation(), [SEGMENTATION], streamed_inputs=("image",), tiles=(Tile((3, 4), 5, 2),), streamed_outputs=("classes",)
    ),
    "rows streamed out": lambda: plan_in_stages(segmentation(), [SEGMENTATION], streamed_outputs=("classes",)),
    "two memories": lambda: check(
        distribute(plan(NETWORKS["residual"](), Request("layer")), {"fast": 250, "slow": 1000}, overlap=False)
    ),
}


@cache
def made(name: str) -> Plan:
    return PLANS[name]()


def moved(old: Plan, **offsets: int) -> Plan:
    """Return the plan with buffers at other offsets and the resulting arena sizes."""
    now = {**old.offsets, **offsets}
    tops = {m: max(now[b.name] + b.bytes for b in old.buffers if b.memory == m) for m in old.arena}
    return replace(old, offsets=now, arena=tops)


def onto(old: Plan, buffer: str, other: str, more: int = 0) -> Plan:
    """Return the plan with a buffer at the offset of another one, plus `more` bytes."""
    return moved(old, **{buffer: old.offsets[other] + more})


def resized(old: Plan, buffer: str, less: int) -> Plan:
    return moved(replace(old, buffers=tuple(replace(b, bytes=b.bytes - less) if b.name == buffer else b for b in old.buffers)))


def staged(old: Plan, step: int = 0, **changes: Any) -> Plan:
    """Return the plan with another stage at a step."""
    stages = list(old.stages)
    stages[step] = replace(stages[step], **changes)
    return replace(old, stages=tuple(stages))


def rows_of(old: Plan, step: int = 0) -> RowSchedule:
    schedule = old.stages[step].schedule
    assert schedule is not None
    return schedule


def schedule_rows(old: Plan, node: int | str, **changes: int) -> Plan:
    schedule = rows_of(old)
    return staged(
        old, schedule=replace(schedule, timings={**schedule.timings, node: schedule.timings[node]._replace(**changes)})
    )


def ringed(old: Plan, **rings: int) -> Plan:
    return staged(old, schedule=replace(rows_of(old), line_buffers={**rows_of(old).line_buffers, **rings}))


def flash_heavy(old: Plan, name: str, rows: int) -> Plan:
    """Return the plan with a line buffer of `rows` rows, in a buffer above all others."""
    size = rows * old.graph.tensors[name].bytes // old.graph.tensors[name].shape[1]
    buffers = tuple(replace(b, bytes=size) if b.name == name else b for b in old.buffers)
    return moved(ringed(replace(old, buffers=buffers), **{name: rows}), **{name: 4096})


def tiled(old: Plan, **sizes: tuple[int, int]) -> Plan:
    return staged(old, schedule=replace(rows_of(old), tiles={**rows_of(old).tiles, **sizes}))


def placed(old: Plan, **places: Place) -> Plan:
    return replace(old, places={**old.places, **places})


def without_ring(old: Plan, name: str) -> Plan:
    """Return the plan with a whole map instead of a line buffer, in a buffer above all others."""
    tensor, schedule = old.graph.tensors[name], rows_of(old)
    line_buffers = {other: rows for other, rows in schedule.line_buffers.items() if other != name}
    buffers = tuple(replace(b, bytes=tensor.bytes) if b.name == name else b for b in old.buffers)
    return moved(staged(replace(old, buffers=buffers), schedule=replace(schedule, line_buffers=line_buffers)), **{name: 4096})


def kernels(old: Plan, **names: str) -> Plan:
    """Return the plan with other kernels for the named ops."""
    return replace(old, variants=tuple(names.get(op.name, v) for op, v in zip(old.graph.ops, old.variants, strict=True)))


def lived(old: Plan, buffer: str, **steps: int) -> Plan:
    """Return the plan with another first or last step of a buffer."""
    return replace(old, buffers=tuple(replace(b, **steps) if b.name == buffer else b for b in old.buffers))


def channels(graph: Graph) -> dict[str, Tensor]:
    """Return the tensors of `cuts`, cut along channels instead of rows."""
    shapes = {"a": (1, 8, 6, 2), "b": (1, 8, 6, 2)}
    axis = {"axis": replace(graph.tensors["axis"], data=np.array(3, np.int32))}
    return {name: replace(graph.tensors[name], shape=shape) for name, shape in shapes.items()} | axis
