"""The arena of an architecture without its graph."""

from __future__ import annotations

from functools import lru_cache

from ..cost.chain import Layer
from ..plan.blocks import Step, cropped, least_bytes
from .arch import Arch, Block, blocks


def arena(arch: Arch, *, stream_inputs: bool = False) -> int:
    """Bytes."""
    return least_bytes(steps_of(arch), streamed=stream_inputs)


def steps_of(arch: Arch) -> list[Step]:
    found: list[Step] = []
    for block in blocks(arch):
        found += _steps(block)
    side, channels = found[-1].side_out, found[-1].c_out
    found.append(Step("mean", side, channels, channels))
    if arch.classes:
        found.append(Step("fully_connected", 1, channels, arch.classes))
    return found


@lru_cache(maxsize=1 << 16)
def _steps(block: Block) -> tuple[Step, ...]:
    found = [_step(layer) for layer in block.layers]
    if block.residual:
        last = found[-1]
        held = max(found[0].kernel, 1 + sum(step.kernel - 1 - step.pad for step in found))
        found[0] = found[0]._replace(forth=len(found), held=held)
        found.append(Step("add", last.side_out, last.c_out, last.c_out, last.side_out, back=len(found), held=held))
    return tuple(found)


def _step(layer: Layer) -> Step:
    stride, pad = layer.stride[0], layer.padding[0][0]
    kernel, pad = cropped(layer.h, layer.kernel[0], stride, pad)
    kind = "depthwise_conv_2d" if layer.depthwise else "conv_2d"
    return Step(kind, layer.h, layer.c_in, layer.c_out, layer.h_out, kernel, stride, pad)
