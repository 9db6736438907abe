"""The count `patch_paper`: RAM and MACs of a network whose first layers run patch by patch, as in the MCUNet thesis.

In: ChainLayers on square maps. Out: patch sizes, bytes, MACs. The first layers are the head, which computes a square patch of
its output at a time. Patches overlap on every map except the head's output: the larger the receptive field, the more is
recomputed. With `split`, patches do not overlap, which changes the network's function. Depthwise layers run in place.
Skip connections, scratch and the image, which arrives patch by patch, are not counted.

Source: J. Lin's thesis on tiny deep learning (MIT), chapter 4, eq. 4.1; arXiv 2110.15352 (MCUNetV2).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import NamedTuple

from ..ops.window import ChainLayer
from .chain import macs

Span = tuple[int, int]


def receptive_fields(head: Sequence[ChainLayer], patch: int = 1, *, split: bool = False) -> list[int]:
    """Return the receptive field of an output patch in rows: on the input of each layer, and last on the output (eq. 4.1)."""
    sides = [patch]
    for layer in reversed(head):
        sides.append(sides[-1] * layer.stride[0] if split else (sides[-1] - 1) * layer.stride[0] + layer.kernel[0])
    return sides[::-1]


def layer_bytes(layer: ChainLayer, *, in_place: bool = True) -> int:
    """Return the bytes of a layer's input and output; with `in_place`, the output of a depthwise layer overwrites its input."""
    return max(layer.in_bytes, layer.out_bytes) if layer.depthwise and in_place else layer.in_bytes + layer.out_bytes


def peak_bytes(layers: Sequence[ChainLayer], *, in_place: bool = True) -> int:
    """Return the peak RAM of a layer-by-layer run."""
    return max(layer_bytes(layer, in_place=in_place) for layer in layers)


def head_bytes(head: Sequence[ChainLayer], patch: int, *, split: bool = False) -> int:
    """Return the peak RAM of the head: its whole output, and the input and output patches of its largest layer."""
    maps = [(layer.h, layer.c_in) for layer in head] + [(head[-1].h_out, head[-1].c_out)]
    sides = [min(side, extent) for side, (extent, _) in zip(receptive_fields(head, patch, split=split), maps, strict=True)]
    patches = [side * side * c for side, (_, c) in zip(sides, maps, strict=True)]
    step_bytes = [max(a, b) if layer.depthwise else a + b for layer, a, b in zip(head, patches[:-1], patches[1:], strict=True)]
    return max(step_bytes) + head[-1].out_bytes


def patched_bytes(layers: Sequence[ChainLayer], head: int, patch: int, *, split: bool = False) -> int:
    """Return the peak RAM if the first `head` layers run patch by patch and the others layer by layer."""
    rest = [layer_bytes(layer) for layer in layers[head:]]
    return max([head_bytes(layers[:head], patch, split=split), *rest] if head else rest)


def patched_macs(layers: Sequence[ChainLayer], head: int, patch: int, *, clipped: bool = False, split: bool = False) -> int:
    """Return the MACs if the first `head` layers run patch by patch and the others layer by layer."""
    return sum(head_macs(layers[:head], patch, clipped=clipped, split=split)) + macs(layers[head:])


def head_macs(head: Sequence[ChainLayer], patch: int, *, clipped: bool = False, split: bool = False) -> list[int]:
    """Return the MACs of each layer of a head that runs patch by patch; taps on padding count.

    With `clipped`, patches end at the edges of their maps; the thesis does not clip.
    """
    if not head:
        return []
    side, counts = head[-1].h_out, list[int]()
    # per patch, along one axis
    spans = [(at, min(at + patch, side) if clipped else at + patch) for at in range(0, side, patch)]
    for layer in reversed(head):
        counts.append(sum(end - begin for begin, end in spans) ** 2 * layer.macs_per_pixel)  # patches are all pairs of spans
        spans = [_read(layer, span, clipped=clipped, split=split) for span in spans]
    return counts[::-1]


def _read(layer: ChainLayer, span: Span, *, clipped: bool, split: bool) -> Span:
    """Return the rows [begin, end) of a layer's input that a span of its output rows reads."""
    begin, end = span[0] * layer.stride[0], span[1] * layer.stride[0]
    if not split:
        begin -= layer.padding[0][0]
        end += layer.kernel[0] - layer.stride[0] - layer.padding[0][0]
    return (max(begin, 0), min(end, layer.h)) if clipped else (begin, end)


class Patched(NamedTuple):
    """RAM and MACs of a network whose first `head` layers run patch by patch."""

    head: int  # 0 for layer by layer
    patch: int  # rows and columns of a patch of the head's output
    ram: int  # bytes
    macs: int


def all_patched(layers: Sequence[ChainLayer]) -> list[Patched]:
    """Return the layer-by-layer run, and each head with each patch size that gives 2 or more patches per side."""
    cut = [
        (head, patch)
        for head, last in enumerate(layers, 1)
        for patch in sorted({-(-last.h_out // count) for count in range(2, last.h_out + 1)})
    ]
    return [Patched(*run, patched_bytes(layers, *run), patched_macs(layers, *run)) for run in ((0, 0), *cut)]


def largest_input(c_in: int, c_out: int, ram: int) -> int:
    """Return the side of the largest square input of a layer of stride 1 that fits, with its output, into `ram` bytes."""
    return isqrt(ram // (c_in + c_out))
