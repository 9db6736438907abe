"""What an architecture needs of RAM, without its graph, for searches that ask of a hundred thousand. In: an Arch. Out: bytes.

The network is that of `network.to_graph` as the passes leave it, in which no channel is constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ..ir import CompileError, Graph
from ..papers.chain import ChainLayer
from ..passes import PASSES, shrink_channels, strip_transposes
from ..planning.planner import Choices
from ..planning.schedules import more_work
from . import ram_model
from .arch import Arch, Block, blocks
from .network import to_graph
from .steps import Step, cropped

WORD = 4  # channels; what is no whole number of words needs a few bytes more than here, to begin at one

Chain = list[tuple[Step, ...]]
"""The steps of a network, block by block."""


def arena(arch: Arch, *, stream_inputs: bool = False, max_mac_overhead: float | None = None, schedule: str = "best") -> int:
    """Return what `plan(graph, schedule)` counts for the busiest step, in bytes. Without work done again that is its
    `lower_bound`, and few arenas need more; with tiles of several rows, which may need less than is counted, some need less.

    With `stream_inputs` the image comes by rows; else it is in RAM. Widths are whole numbers of words of 4 channels. Schedules
    but `best` and `layer`, and `best` where no compiler is found, are planned as graphs, which takes a hundred times as long.
    """
    if arch.anchors:
        raise CompileError("the network is a detector", "give a classifier: others are planned as graphs")
    return arena_of(
        blocks(arch), arch.classes, stream_inputs=stream_inputs, max_mac_overhead=max_mac_overhead, schedule=schedule
    )


def arena_of(
    blocks: Sequence[Block],
    classes: int | None,
    *,
    stream_inputs: bool = False,
    max_mac_overhead: float | None = None,
    schedule: str = "best",
) -> int:
    """Return the same of blocks, with or without a mean and a classifier behind them; arguments as for `network.to_graph`."""
    chain = _chain(blocks, classes)
    if schedule == "layer" and not stream_inputs:
        return ram_model.layer_by_layer(chain)
    if schedule == "best":
        budget = more_work(ram_model.macs(chain), 1.0 if max_mac_overhead is None else max_mac_overhead)
        found = ram_model.least_bytes(chain, streamed_inputs=stream_inputs, budget=budget)
        if found is not None:
            return found
    graph = graph_of(blocks, classes)
    return Choices(graph, schedule, stream_inputs=stream_inputs, max_mac_overhead=max_mac_overhead).least_bytes


def graph_of(blocks: Sequence[Block], classes: int | None) -> Graph:
    """Return the network as the passes leave it, but with all channels: of a map of few pixels random weights leave some
    constant."""
    graph = to_graph("network", blocks, classes)
    for rewrite in PASSES:
        if rewrite not in (shrink_channels, strip_transposes):
            graph, _ = rewrite(graph)
    return graph


def macs(arch: Arch) -> int:
    """Return multiply-accumulates that the network has, borders clipped."""
    return ram_model.macs(_chain(blocks(arch), arch.classes))


def _chain(blocks: Sequence[Block], classes: int | None) -> Chain:
    """Return the network op by op; CompileError where channels are no multiple of a word."""
    stem = blocks[0].layers
    if not all(layer.is_square for layer in stem):
        raise CompileError(f"the image is {stem[0].h} x {stem[0].w}", "give a square one: others are planned as graphs")
    chain = [_steps(block) for block in blocks]
    last = chain[-1][-1]
    if classes is not None:
        chain.append(_head(last.side_out, last.c_out, classes))
    return chain


@lru_cache(maxsize=1 << 12)
def _head(side: int, channels: int, classes: int) -> tuple[Step, ...]:
    mean = Step("mean", side, channels, channels)
    return (mean, Step("fully_connected", 1, channels, classes)) if classes else (mean,)


@lru_cache(maxsize=1 << 16)
def _steps(block: Block) -> tuple[Step, ...]:
    chain = [_step(layer) for layer in block.layers]
    for step in chain:
        if step.c_out % WORD:
            raise CompileError(f"the network has a layer of {step.c_out} channels", f"give a multiple of {WORD}")
    if block.residual:
        side, channels, count = chain[-1].side_out, chain[-1].c_out, len(chain)
        chain[0] = chain[0]._replace(forth=count)
        chain.append(Step("add", side, channels, channels, side, back=count))
    return tuple(chain)


def _step(layer: ChainLayer) -> Step:
    kernel, pad = cropped(layer.h, layer.kernel[0], layer.stride[0], layer.padding[0][0])
    kind = "depthwise_conv_2d" if layer.depthwise else "conv_2d"
    return Step(kind, layer.h, layer.c_in, layer.c_out, layer.h_out, kernel, layer.stride[0], pad)


def forget() -> None:
    """Forget what is known of blocks, which only makes the next ones slower."""
    _steps.cache_clear()
    ram_model.forget()
