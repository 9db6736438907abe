"""What an architecture needs of RAM, without its graph, for searches that ask of a hundred thousand. In: an Arch. Out: bytes.

The network is that of `network.to_graph` as the passes leave it, in which no channel is constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ..ir import CompileError
from ..papers.chain import ChainLayer
from . import ram_model, steps
from .arch import Arch, Block, blocks
from .steps import Step, cropped

WORD = 4  # channels; what is no whole number of words needs a few bytes more than here, to begin at one


def arena(arch: Arch, *, stream_inputs: bool = False) -> int:
    """Return the `lower_bound` of `plan(graph, "best")`, at F = 1, in bytes: what the busiest step needs. Few arenas need more.

    With `stream_inputs` the image comes by rows; else it is in RAM. Widths are whole numbers of words of 4 channels.
    """
    return ram_model.least_bytes(steps_of(arch), streamed_inputs=stream_inputs)


def arena_of(blocks: Sequence[Block], classes: int | None, *, stream_inputs: bool = False) -> int:
    """Return the same of blocks, with or without a mean and a classifier behind them; arguments as for `network.to_graph`."""
    return ram_model.least_bytes(_checked(blocks, classes), streamed_inputs=stream_inputs)


def macs(arch: Arch) -> int:
    """Return multiply-accumulates that this plan executes, borders clipped."""
    return steps.macs(steps_of(arch))


def steps_of(arch: Arch) -> list[Step]:
    """Return the network op by op; CompileError where channels are no multiple of a word."""
    if arch.anchors:
        raise CompileError("the network is a detector", "give a classifier: others are planned as graphs")
    return _checked(blocks(arch), arch.classes)


def _checked(blocks: Sequence[Block], classes: int | None) -> list[Step]:
    stem = blocks[0].layers
    if not all(layer.is_square for layer in stem):
        raise CompileError(f"the image is {stem[0].h} x {stem[0].w}", "give a square one: others are planned as graphs")
    chain = [step for block in blocks for step in _steps(block)]
    for step in chain:
        if step.c_out % WORD:
            raise CompileError(f"the network has a layer of {step.c_out} channels", f"give a multiple of {WORD}")
    last = chain[-1]
    if classes is not None:
        chain.append(Step("mean", last.side_out, last.c_out, last.c_out))
    return [*chain, Step("fully_connected", 1, last.c_out, classes)] if classes else chain


@lru_cache(maxsize=1 << 16)
def _steps(block: Block) -> tuple[Step, ...]:
    chain = [_step(layer) for layer in block.layers]
    if block.residual:
        side, channels, count = chain[-1].side_out, chain[-1].c_out, len(chain)
        late = sum(step.kernel - 1 - step.pad for step in chain)
        held = max(chain[0].kernel, late + 1)
        chain[0] = chain[0]._replace(forth=count, late=late, held=held)
        chain.append(Step("add", side, channels, channels, side, back=count, late=late, held=held))
    return tuple(chain)


def _step(layer: ChainLayer) -> Step:
    kernel, pad = cropped(layer.h, layer.kernel[0], layer.stride[0], layer.padding[0][0])
    kind = "depthwise_conv_2d" if layer.depthwise else "conv_2d"
    return Step(kind, layer.h, layer.c_in, layer.c_out, layer.h_out, kernel, layer.stride[0], pad)


def forget() -> None:
    """Forget what is known of blocks, which only makes the next ones slower."""
    _steps.cache_clear()
    ram_model.forget()
