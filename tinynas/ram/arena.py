"""Peak RAM of an architecture without its graph, for searches that evaluate 100,000 networks. In: an Arch. Out: bytes.

The most live bytes in any step of the best plan for `network.to_graph` after all passes: without recomputation a lower bound on
the arena (`Plan.lower_bound`), which most plans reach. `ram_model` computes it without a graph, but not for squeeze and
excitation, because two ops read the map that is scaled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from tinyweave.ir import CompileError, Graph
from tinyweave.ops.window import ChainLayer
from tinyweave.passes import PASSES
from tinyweave.passes.shrink_channels import shrink_channels
from tinyweave.passes.strip_edges import strip_transposes
from tinyweave.planning import PlanSearch, Request
from tinyweave.planning.strategies import recomputable_macs

from ..arch import POOLINGS, Arch, Block, blocks
from ..network import to_graph
from . import ram_model
from .ram_model import Step, cropped

SUM = 4  # bytes of a channel's sum, which a mean keeps if it reads its map row by row
WORD = 4  # channels must be a multiple of this: other buffers need padding bytes, which the fast path does not count

Chain = list[tuple[Step, ...]]  # for each block, its ops as Steps


def arena(arch: Arch, *, stream_inputs: bool = False, max_mac_overhead: float | None = None, schedule: str = "best") -> int:
    """Return the peak RAM of a classifier in bytes: the most bytes that are alive in any step of its plan.

    Planned as graphs, 100 times slower, are squeeze and excitation, the schedule `layer` with streamed inputs, schedules other
    than `best` and `layer`, and `best` without a C compiler.

    Args:
        stream_inputs: Whether the image arrives row by row; otherwise it is in RAM as a whole.
        max_mac_overhead: Limit on the MACs with recomputation, as a factor on the MACs without; None for no recomputation.

    Raises:
        CompileError: The network is a detector, its pooling is not `mean`, its image is not square, or a number of channels is
            no multiple of 4.
    """
    if arch.anchors:
        raise CompileError("the network is a detector", "give a classifier; detectors are planned as graphs")
    if arch.pooling != POOLINGS[0]:
        raise CompileError(f"the network has pooling {arch.pooling}", f"give {POOLINGS[0]}; others are planned as graphs")
    return arena_of(
        blocks(arch), arch.classes, stream_inputs=stream_inputs, max_mac_overhead=max_mac_overhead, schedule=schedule
    )


def arena_lower_bound(arch: Arch, *, stream_inputs: bool = False) -> int:
    """Return a quick lower bound on the arena of a plan without recomputation, in bytes.

    It is the peak RAM without squeeze and excitation; for maxima, with means less the sums that a mean may keep. Raise
    CompileError as `arena`, except for the pooling `max` or `both`.
    """
    groups = tuple(replace(group, squeeze=0) for group in arch.groups)
    if arch.pooling not in ("max", "both"):
        return arena(replace(arch, groups=groups), stream_inputs=stream_inputs)
    sums = SUM * blocks(arch)[-1].layers[-1].c_out
    return max(0, arena(replace(arch, groups=groups, pooling="mean"), stream_inputs=stream_inputs) - sums)


def arena_of(
    blocks: Sequence[Block],
    classes: int | None,
    *,
    stream_inputs: bool = False,
    max_mac_overhead: float | None = None,
    schedule: str = "best",
) -> int:
    """Return the peak RAM in bytes of blocks; `classes` of 0 ends with the mean of each channel, None with the last block."""
    is_chain = not any(block.squeezed for block in blocks)
    chain = _chain(blocks, classes)
    if is_chain and schedule == "layer" and not stream_inputs:
        return ram_model.layer_by_layer(chain)
    if is_chain and schedule == "best":
        budget = 0 if max_mac_overhead is None else recomputable_macs(ram_model.macs(chain), max_mac_overhead)
        peak = ram_model.least_bytes(chain, streamed_inputs=stream_inputs, budget=budget)
        if peak is not None:
            return peak
    graph = graph_of(blocks, classes)
    request = Request(schedule, stream_inputs=stream_inputs, max_mac_overhead=max_mac_overhead)
    return PlanSearch(graph, request).least_bytes


def graph_of(blocks: Sequence[Block], classes: int | None, pooling: str = POOLINGS[0]) -> Graph:
    """Return the graph after all passes except those that remove transposes, or constant channels, as random weights make."""
    graph = to_graph("network", blocks, classes, pooling=pooling)
    for rewrite in PASSES:
        if rewrite not in (shrink_channels, strip_transposes):
            graph, _ = rewrite(graph)
    return graph


def _chain(blocks: Sequence[Block], classes: int | None) -> Chain:
    """Return Steps of each block, then of mean and classifier (not for `classes` None), without squeeze and excitation.

    Raises CompileError if the image is not square.
    """
    stem = blocks[0].layers
    if not all(layer.is_square for layer in stem):
        raise CompileError(f"the image is {stem[0].h} x {stem[0].w}", "give a square one; other networks are planned as graphs")
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
