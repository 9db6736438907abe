"""Random valid int8 networks; the same seed gives the same graph.

A network grows from its inputs. Each step picks an op kind for which a live tensor fits, with random attributes, and random
quantisation for which the outputs spread over the int8 range. Branches meet again in add, mul and concatenation.
"""

from __future__ import annotations

import random
from typing import Any

from tinyweave.ir import Graph, Tensor, verify
from tinyweave.kernels.table import variant_for
from tinyweave.planning import Tile
from tinyweave.planning.fuse.row_access import RowGraph, streamable_outputs
from tinyweave.planning.fuse.row_schedule import schedule_stage

from .growers import GROWERS, Growers
from .growth import Growth

MAX_ELEMENTS = 6000
MAX_SCALE = 2.0**16


FILTERED = ("conv_2d", "depthwise_conv_2d", "fully_connected")  # kinds whose filters `damaged` changes


# ops that run by rows, and ops that make such networks branch and join
BY_ROW: Growers = {
    kind: GROWERS[kind]
    for kind in (
        *("conv_2d", "depthwise_conv_2d", "average_pool_2d", "max_pool_2d", "add", "sub", "mul", "maximum", "concatenation"),
        *("pad", "mean", "prelu", "logistic", "relu", "quantize", "hard_swish", "squared_difference"),
    )
}


# BY_ROW and ops that enlarge maps
BY_SOME_ROWS: Growers = BY_ROW | {
    kind: GROWERS[kind] for kind in ("resize_bilinear", "resize_nearest_neighbor", "transpose_conv")
}


# BY_ROW and dense layers, which take a map row by row
HEADED: Growers = BY_ROW | {"fully_connected": (4, GROWERS["fully_connected"][1])}


def _grows(tensor: Tensor) -> bool:
    """Return whether an op may read the tensor; products of products would get scales without a fixed-point multiplier."""
    scales = tensor.quant.scale if tensor.quant else ()
    return bool(tensor.shape) and tensor.elements <= MAX_ELEMENTS and max(scales, default=0.0) <= MAX_SCALE


def random_network(
    seed: int,
    steps: int | None = None,
    damaged: bool = False,
    growers: Growers = GROWERS,
    live: int = 8,
    *,
    usual: float = 0.4,
) -> Graph:
    """Return a network of up to `steps` ops (by default 3 to 14); its outputs are the unread tensors.

    `damaged` makes many channels constant, for the passes to remove. live: number of tensors from which operands are drawn; few
    give long chains. usual: fraction of depthwise layers with common windows.
    """
    g = Growth(seed, damaged, usual)
    first = [g.input() for _ in range(g.rng.choice([1, 1, 1, 2]))]
    kinds = list(growers)
    weights = [growers[kind][0] * (6 if damaged and kind in FILTERED else 1) for kind in kinds]
    wanted = steps or g.rng.randint(3, 14)
    for _ in range(10 * wanted):
        if len(g.ops) >= wanted:
            break
        growers[g.rng.choices(kinds, weights)[0]][1](g)
        g.live = [name for name in g.live if _grows(g.tensors[name])][-live:]
        if not g.live:
            g.live = list(first)
    read = {name for op in g.ops for name in op.inputs}
    unread = [name for op in g.ops for name in op.outputs if name not in read]
    outputs = tuple(name for name in unread if g.tensors[name].role != "state") or (g.live[-1],)
    return verify(Graph(f"network_{seed}", g.tensors, tuple(g.ops), tuple(g.inputs), outputs, tuple(g.init)))


def random_order(graph: Graph, rng: random.Random) -> tuple[int, ...]:
    """Return a random order in which each op comes after the ops that it reads from and after earlier accesses of its state."""
    done: list[int] = []
    while len(done) < len(graph.ops):
        done.append(rng.choice([i for i in range(len(graph.ops)) if i not in done and _may_run(graph, i, done)]))
    return tuple(done)


def random_stages(graph: Graph, rng: random.Random) -> tuple[list[tuple[int, ...]], dict[str, Any]]:
    """Return a random partition of the file's order into stages, and the other arguments of `plan_in_stages`.

    Stages of several ops can run by rows. The arguments are: streamed inputs that one stage alone reads; tiles of any number of
    columns and rows, cached or as patches; and streamed outputs.
    """
    variants = [variant_for(graph, op).name for op in graph.ops]
    row_graph, begin, stages = RowGraph(graph, variants), 0, list[tuple[int, ...]]()
    while begin < len(graph.ops):
        ends = [end for end in range(begin + 2, len(graph.ops) + 1) if schedule_stage(row_graph, range(begin, end)) is not None]
        end = rng.choice([*ends, begin + 1]) if rng.random() < 0.9 else begin + 1
        stages.append(tuple(range(begin, end)))
        begin = end
    streamed_inputs: tuple[str, ...] = ()
    for name in (name for name in graph.inputs if rng.random() < 0.7):
        brought = RowGraph(graph, variants, (*streamed_inputs, name))
        readers = [ops for ops in stages if name in brought.graph.inputs and not row_graph.readers[name].isdisjoint(ops)]
        if len(readers) == 1 and schedule_stage(brought, readers[0]) is not None and -1 not in row_graph.readers[name]:
            streamed_inputs += (name,)
    tiles: tuple[Tile, ...] = ()
    for ops in stages:
        at = 0
        while at < len(ops) - 1:
            run = ops[at : at + rng.randint(2, 8)]
            more = (*tiles, Tile(run, rng.randint(1, 9), rng.choice((1, 1, 2, 3, 5)), cached=rng.random() < 0.7))
            joined = rng.random() < 0.7 and schedule_stage(RowGraph(graph, variants, streamed_inputs, more), ops) is not None
            tiles = more if joined else tiles
            at += len(run) if joined else 1
    lasts = [graph.ops[ops[-1]].outputs[0] for ops in stages]
    streamed_outputs = tuple(name for name in streamable_outputs(row_graph) if name in lasts and rng.random() < 0.7)
    return stages, {"streamed_inputs": streamed_inputs, "tiles": tiles, "streamed_outputs": streamed_outputs}


def _may_run(graph: Graph, index: int, done: list[int]) -> bool:
    op = graph.ops[index]
    state = {n for n in (*op.inputs, *op.outputs) if n is not None and graph.tensors[n].role == "state"}
    return all(
        i in done
        for i, other in enumerate(graph.ops[:index])
        if set(other.outputs).intersection(op.inputs) or state.intersection(other.inputs + other.outputs)
    )
