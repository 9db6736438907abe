"""Describe every buffer and fused stage of a plan as plain values; steps count from 0, intervals are half-open."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from ..ir import Graph
from ..planning import Plan, Stage
from ..planning.fuse.row_access import row_bytes
from ..planning.plan import Buffer
from .layer import shape_text
from .model import buffer_labels

Record = dict[str, Any]
Touches = Mapping[str, Sequence[tuple[int, str]]]  # tensor -> (step, layer) of each write, or of each read
REASONS = {  # kind of a buffer -> its purpose in words
    "input": "a network input: it is there before the first step",
    "output": "a network output: it stays until the caller has read it",
    "state": "kept from one call to the next",
    "tile": "what the layers of a tile pass on, some columns at a time",
}


def buffer_records(plan: Plan) -> list[Record]:
    """Return a dict per buffer: offset, lifetime, shapes, writers, readers, overlapping buffers, and its purpose in words."""
    labels = {name: label.split("  (")[0] for name, label in buffer_labels(plan).items()}
    writers, readers = _touches(plan)
    records = []
    for buffer in sorted(plan.buffers, key=lambda b: (b.memory, b.start, plan.offsets[b.name])):
        tensors = [name for name, place in plan.places.items() if place.buffer == buffer.name]
        written, read = (
            sorted({touch for name in tensors for touch in touches.get(name, ())}) for touches in (writers, readers)
        )
        kind, shares = plan.kind(buffer), _shares(plan, buffer)
        records.append(
            {
                "name": buffer.name,
                "label": labels[buffer.name],
                "kind": kind,
                "memory": buffer.memory,
                "offset": plan.offsets[buffer.name],
                "bytes": buffer.bytes,
                "begin": buffer.start,
                "end": buffer.end,
                "shapes": [shape_text(plan.graph.tensors[name].shape) for name in tensors],
                "written_by": written,
                "read_by": read,
                "shares": shares,
                "why": "; ".join(
                    [
                        *_reasons(plan, buffer, kind),
                        *(f"written by {layer} in step {step + 1}" for step, layer in written[:1]),
                        *(f"last read by {layer} in step {step + 1}" for step, layer in read[-1:]),
                        *(
                            f"shares {count:,} B with {labels[other]}, of which one dies as the other is written"
                            for other, count in shares.items()
                        ),
                    ]
                ),
            }
        )
    return records


def _touches(plan: Plan) -> tuple[Touches, Touches]:
    """Return the writes and the reads of each tensor: tensor -> (step, layer) of each access; a view writes nothing."""
    writers, readers = defaultdict[str, list[tuple[int, str]]](list), defaultdict[str, list[tuple[int, str]]](list)
    for step, index in ((step, index) for step, stage in enumerate(plan.stages) for index in stage.ops):
        op = plan.graph.ops[index]
        for touches, names in ((writers, op.outputs if plan.variants[index] else ()), (readers, op.inputs)):
            for name in filter(None, names):
                touches[name].append((step, op.name))
    return writers, readers


def _shares(plan: Plan, buffer: Buffer) -> dict[str, int]:
    """Return name -> number of shared bytes, of each buffer that overlaps this buffer in both address and lifetime."""
    begin, at = plan.offsets[buffer.name], plan.offsets
    shares = {
        other.name: min(begin + buffer.bytes, at[other.name] + other.bytes) - max(begin, at[other.name])
        for other in plan.buffers
        if other is not buffer and other.memory == buffer.memory and max(other.start, buffer.start) < min(other.end, buffer.end)
    }
    return {name: count for name, count in shares.items() if count > 0}


def _reasons(plan: Plan, buffer: Buffer, kind: str) -> list[str]:
    """Return the purpose of a buffer in words; for a line buffer, how many rows it holds."""
    if kind == "scratch":
        return [f"working memory of step {buffer.start + 1}"]
    if kind != "ring":
        return [REASONS[kind]] if kind in REASONS else []
    tensor = plan.graph.tensors[buffer.name]
    brought = "; the caller brings them" if buffer.name in plan.streamed_inputs else ""
    streamed = "; the caller takes them" if buffer.name in plan.streamed_outputs else brought
    kept = f"{buffer.bytes // row_bytes(tensor)} of {tensor.shape[1]} rows are kept"
    return [f"{kept}, since the layers run row by row{streamed}"]


def stage_records(plan: Plan) -> list[Record]:
    """Return a dict per fused stage: when each layer computes its rows, and how much of each map between layers is in RAM."""
    return [_stage(plan, step, stage) for step, stage in enumerate(plan.stages) if stage.schedule is not None]


def _stage(plan: Plan, step: int, stage: Stage) -> Record:
    """Return a fused stage as plain values: its layers, when each computes its rows, its tiles, and the map rows in RAM."""
    graph, schedule = plan.graph, stage.schedule
    assert schedule is not None
    keys = ("first", "every", "rows", "rows_per_iteration")
    maps = [_map(graph, name, rows, None) for name, rows in schedule.line_buffers.items()]
    maps += [_map(graph, name, rows, cols) for name, (rows, cols) in schedule.tiles.items()]
    return {
        "step": step,
        "ticks": schedule.ticks,
        "layers": [graph.ops[index].name for index in stage.ops],
        "in_tiles": {graph.ops[index].name: [tile.rows, tile.cols] for tile in stage.tiles or () for index in tile.ops},
        "timings": [
            {"layer": node if isinstance(node, str) else graph.ops[node].name} | {key: getattr(timing, key) for key in keys}
            for node, timing in schedule.timings.items()
        ],
        "maps": maps,
    }


def _map(graph: Graph, name: str, rows: int, cols: int | None) -> Record:
    """Return how much of a feature map a fused stage has in RAM: `rows` whole rows, or `rows` x `cols` pixels (a tile)."""
    tensor = graph.tensors[name]
    _, height, width, _ = tensor.shape
    kept = rows * row_bytes(tensor) if cols is None else rows * cols * tensor.pixel_bytes
    made_by = graph.ops[graph.producer[name]].name if name in graph.producer else None
    about = {"tensor": name, "made_by": made_by, "shape": shape_text(tensor.shape), "bytes": tensor.bytes}
    return about | {"kept_bytes": kept, "rows": [rows, height], "cols": None if cols is None else [cols, width]}
