"""What an architecture needs of RAM, without its graph, for searches that ask of a hundred thousand. In: an Arch. Out: bytes.

The network is that of `network.to_graph` as the passes leave it, in which no channel is constant. Squeeze and excitation has no
fast form, for its maps have two readers: such networks are planned as graphs, and bounded from below by those without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from ..ir import CompileError, Graph
from ..papers.chain import ChainLayer
from ..passes import PASSES, shrink_channels, strip_transposes
from ..planning.planner import Choices
from ..planning.schedules import more_work
from . import ram_model
from .arch import Arch, Block, blocks, bottleneck, convolution, excitation
from .network import to_graph
from .steps import Step, cropped, distance_of, macs_of

WORD = 4  # channels; what is no whole number of words needs a few bytes more than here, to begin at one

Chain = list[tuple[Step, ...]]
"""The steps of a network, block by block."""


def arena(arch: Arch, *, stream_inputs: bool = False, max_mac_overhead: float | None = None, schedule: str = "best") -> int:
    """Return what `plan(graph, schedule)` counts for the busiest step, in bytes. Without work done again that is its
    `lower_bound`, and few arenas need more; with tiles of several rows, which may need less than is counted, some need less.

    With `stream_inputs` the image comes by rows; else it is in RAM. Widths are whole numbers of words of 4 channels. Schedules
    but `best` and `layer`, `best` where no compiler is found, and squeeze and excitation are planned as graphs, which takes a
    hundred times as long.
    """
    if arch.anchors:
        raise CompileError("the network is a detector", "give a classifier: others are planned as graphs")
    return arena_of(
        blocks(arch), arch.classes, stream_inputs=stream_inputs, max_mac_overhead=max_mac_overhead, schedule=schedule
    )


def least_arena(arch: Arch, *, stream_inputs: bool = False) -> int:
    """Return bytes that no plan of the network needs fewer than that computes nothing twice, in the time of the fast form: of a
    network with squeeze and excitation the arena without it, in which its maps need not wait for their means; else `arena`."""
    groups = tuple(replace(group, squeeze=0) for group in arch.groups)
    return arena(replace(arch, groups=groups), stream_inputs=stream_inputs)


def arena_of(
    blocks: Sequence[Block],
    classes: int | None,
    *,
    stream_inputs: bool = False,
    max_mac_overhead: float | None = None,
    schedule: str = "best",
) -> int:
    """Return the same of blocks, with or without a mean and a classifier behind them; arguments as for `network.to_graph`."""
    is_chain = not any(block.squeezed for block in blocks)
    chain = _chain(blocks, classes)
    if is_chain and schedule == "layer" and not stream_inputs:
        return ram_model.layer_by_layer(chain)
    if is_chain and schedule == "best":
        budget = 0 if max_mac_overhead is None else more_work(ram_model.macs(chain), max_mac_overhead)
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
    sequence = blocks(arch)
    return ram_model.macs(_chain(sequence, arch.classes)) + excitation(sequence)


def _chain(blocks: Sequence[Block], classes: int | None) -> Chain:
    """Return the network op by op, without squeeze and excitation; CompileError where channels are no multiple of a word."""
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
    chain = list[Step]()
    for index, layer in enumerate(block.layers):
        chain.append(_step(layer))
        if block.activation == "hard_swish" and not (block.linear and index == len(block.layers) - 1):
            side, channels = chain[-1].side_out, chain[-1].c_out
            chain.append(Step("hard_swish", side, channels, channels, side))
    if odd := [step.c_out for step in chain if step.c_out % WORD]:
        raise CompileError(f"the network has a layer of {odd[0]} channels", f"give a multiple of {WORD}")
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
    for function in (bottleneck, convolution, _steps, _head, macs_of, distance_of, ram_model.numbers_of):
        function.cache_clear()
