"""Compute bytes and multiply-accumulates per layer.

In: a Graph, or a Plan. Out: one Layer per op in the order of execution. Live bytes count what must be in RAM while the
layer runs: its inputs and outputs, everything that a later layer still reads, and in a plan its scratch; bytes that buffers
share in a plan count once.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..codegen.layer import shape_text
from ..ir import UNSUPPORTED, Graph, Op, is_constant, printable
from ..ops import macs_per_op, spec_of
from ..planning import Plan
from ..planning.alias.overlap import views
from ..planning.explain import is_fast, kernel_reason
from ..planning.fuse.row_schedule import plan_macs
from ..planning.order.search import file_order, live_bytes


@dataclass(frozen=True)
class LayerRow:
    """One op of the layer table. Sizes are bytes; `live` counts all bytes in use during its step."""

    step: int
    name: str
    kind: str
    output: str
    tensors: tuple[str, ...]  # names of its outputs
    window: str
    macs: int
    constants: int
    bytes_in: int
    bytes_out: int
    live: int
    kernel: str | None = None
    why: str | None = None  # the reason for this kernel
    fast: bool | None = None  # uses instructions of the core that plain C does not; None without a core or code
    instructions: int | None = None  # measured, of the kernel's calls alone in a fused stage
    cycles: int | None = None  # estimated from these instructions


def graph_layers(graph: Graph) -> list[LayerRow]:
    """Return the rows of a graph in file order, before any planning."""
    order = [(index, index) for index in range(len(graph.ops))]
    return _rows(graph, order, live_bytes(graph, file_order(graph), views(graph)), macs_per_op(graph, clipped=True))


def plan_layers(
    plan: Plan, core: str = "", instructions: Mapping[str, int] | None = None, cycles: Mapping[str, int] | None = None
) -> list[LayerRow]:
    """Return the rows of a plan in its order, with the reasons for its kernels on `core`, unless that is "".

    `instructions` and `cycles`: op name -> what was measured on `core`.
    """
    live = [plan.live(step) for step in range(len(plan.stages))]
    order = [(step, index) for step, stage in enumerate(plan.stages) for index in stage.ops]
    return [
        replace(
            row,
            kernel=plan.variants[index] or None,
            why=kernel_reason(plan, index, core) if core else None,
            fast=is_fast(plan, index, core) if core else None,
            instructions=(instructions or {}).get(row.name),
            cycles=(cycles or {}).get(row.name),
        )
        for row, (_, index) in zip(_rows(plan.graph, order, live, plan_macs(plan)), order, strict=True)
    ]


def peak(layers: Sequence[LayerRow]) -> LayerRow | None:
    """Return the first layer at which most bytes are live."""
    return max(layers, key=lambda layer: layer.live, default=None)


def _rows(
    graph: Graph,
    order: Sequence[tuple[int, int]],
    live: Sequence[int],
    counts: Sequence[int],
) -> list[LayerRow]:
    return [
        LayerRow(
            step=step,
            name=graph.ops[index].name,
            kind=graph.ops[index].attrs["kind"] if graph.ops[index].kind == UNSUPPORTED else graph.ops[index].kind,
            output=", ".join(shape_text(tensor.shape) for tensor in graph.outputs_of(graph.ops[index])),
            tensors=graph.ops[index].outputs,
            window=_window(graph, graph.ops[index]),
            macs=counts[index],
            constants=sum(t.bytes for t in graph.inputs_of(graph.ops[index]) if t is not None and is_constant(t)),
            bytes_in=sum(
                t.bytes for t in dict.fromkeys(graph.inputs_of(graph.ops[index])) if t is not None and not is_constant(t)
            ),
            bytes_out=sum(tensor.bytes for tensor in graph.outputs_of(graph.ops[index])),
            live=live[step],
        )
        for step, index in order
    ]


def _window(graph: Graph, op: Op) -> str:
    """Return kernel size and stride as `3x3/2`, empty for ops without a window."""
    extent = graph.input(op, 1).shape[1:3] if spec_of(op).family == "convolution" else op.attrs.get("kernel")
    if extent is None:
        return ""
    h, w = op.attrs["stride"]
    return f"{extent[0]}x{extent[1]}/" + (f"{h}" if h == w else f"{h}x{w}")


def order_csv(record: dict[str, Any]) -> str:
    """Return the steps of both orders of a `reorder` record as CSV; live tensors are separated by spaces."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(("order", "step", "layer", "kind", "bytes", "tensors"))
    for name, order in record["orders"].items():
        for number, step in enumerate(order["steps"]):
            writer.writerow((name, number + 1, step["op"], step["kind"], step["bytes"], printable(" ".join(step["tensors"]))))
    return lines.getvalue()
