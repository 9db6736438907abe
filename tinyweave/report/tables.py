"""Compute the layer table: bytes and multiply-accumulates of each op.

In: a Graph, or a Plan. Out: one LayerRow per op, in the order of execution. Live bytes are the RAM in use while an op runs: its
inputs and outputs, all tensors that a later op reads, and in a plan its scratch. Bytes that buffers of a plan share count once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..codegen.layer import shape_text
from ..ir import UNSUPPORTED, Graph, Op, is_constant
from ..ops import macs_per_op, spec_of
from ..planning import Plan
from ..planning.alias.overlap import views
from ..planning.explain import is_fast, kernel_reason
from ..planning.fuse.row_schedule import plan_macs
from ..planning.order.order_search import file_order, live_bytes


@dataclass(frozen=True)
class LayerRow:
    """One op of the layer table. Sizes are in bytes."""

    step: int  # step of the plan, counted from 0; without a plan, index of the op
    name: str
    kind: str  # as in TFLite
    output: str  # shapes of its outputs, as text
    tensors: tuple[str, ...]  # names of its outputs
    window: str  # kernel size and stride, such as `3x3/2`; "" for an op without a window
    macs: int
    constants: int  # bytes of weights and other constants that it reads, as in the graph
    bytes_in: int  # bytes of its activation inputs
    bytes_out: int  # bytes of its outputs
    live: int  # bytes in use during its step
    kernel: str | None = None  # name of its kernel; None without a plan or without code
    why: str | None = None  # the reason for this kernel; None if it was not requested
    # whether the kernel uses instructions of the core that plain C does not; None if `why` is None or no code runs
    fast: bool | None = None
    instructions: int | None = None  # measured instructions, in a fused stage of its kernel calls alone; None if unknown
    cycles: int | None = None  # cycles estimated from these instructions; None if unknown


def graph_layers(graph: Graph) -> list[LayerRow]:
    """Return the layer table of a graph that is not planned, in the order of its file."""
    order = [(index, index) for index in range(len(graph.ops))]
    return _rows(graph, order, live_bytes(graph, file_order(graph), views(graph)), macs_per_op(graph, clipped=True))


def plan_layers(
    plan: Plan, core: str = "", instructions: Mapping[str, int] | None = None, cycles: Mapping[str, int] | None = None
) -> list[LayerRow]:
    """Return the layer table of a plan, with reasons for kernels if `core`, and measured costs by op name, if known."""
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
    """Return the first layer with the most live bytes, or None if there are no layers."""
    return max(layers, key=lambda layer: layer.live, default=None)


def _rows(graph: Graph, order: Sequence[tuple[int, int]], live: Sequence[int], counts: Sequence[int]) -> list[LayerRow]:
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
    """Return kernel size and stride as text such as `3x3/2`, or "" for an op without a window."""
    extent = graph.input(op, 1).shape[1:3] if spec_of(op).family == "convolution" else op.attrs.get("kernel")
    if extent is None:
        return ""
    h, w = op.attrs["stride"]
    return f"{extent[0]}x{extent[1]}/" + (f"{h}" if h == w else f"{h}x{w}")
