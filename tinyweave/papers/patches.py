"""The count `patch_paper`: memory and work of a network whose first layers run patch by patch, as the MCUNet thesis has it.

In: Layers on square maps; how many of them are the head, which makes a square patch of its output at a time. Out: the patch's
size on each map, bytes, multiply-accumulates. Patches overlap on all maps but that output: the larger the receptive field, the
more is computed again. Split: they overlap on none, which changes what is computed. Depthwise layers run in place; skips and
scratch are not counted, nor the image, of which a patch comes at a time. Source: J. Lin's thesis on tiny deep learning (MIT),
chapter 4, eq. 4.1; arXiv 2110.15352 (MCUNetV2).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import NamedTuple

from .chain import ChainLayer, macs

Span = tuple[int, int]


def receptive_fields(head: Sequence[ChainLayer], patch: int = 1, *, split: bool = False) -> list[int]:
    """Eq. 4.1: rows of the input of each layer, and last of the output, that a patch of the output depends on."""
    sides = [patch]
    for layer in reversed(head):
        sides.append(sides[-1] * layer.stride[0] if split else (sides[-1] - 1) * layer.stride[0] + layer.kernel[0])
    return sides[::-1]


def layer_bytes(layer: ChainLayer, *, in_place: bool = True) -> int:
    """Input and output of a layer on whole maps; a depthwise one writes its output over its input."""
    return max(layer.in_bytes, layer.out_bytes) if layer.depthwise and in_place else layer.in_bytes + layer.out_bytes


def peak_bytes(layers: Sequence[ChainLayer], *, in_place: bool = True) -> int:
    """Layer by layer."""
    return max(layer_bytes(layer, in_place=in_place) for layer in layers)


def head_bytes(head: Sequence[ChainLayer], patch: int, *, split: bool = False) -> int:
    """Return bytes of the head's output and of the largest layer's patches, in and out, no larger than the maps."""
    maps = [(layer.h, layer.c_in) for layer in head] + [(head[-1].h_out, head[-1].c_out)]
    sides = [min(side, extent) for side, (extent, _) in zip(receptive_fields(head, patch, split=split), maps, strict=True)]
    patches = [side * side * c for side, (_, c) in zip(sides, maps, strict=True)]
    step_bytes = [max(a, b) if layer.depthwise else a + b for layer, a, b in zip(head, patches[:-1], patches[1:], strict=True)]
    return max(step_bytes) + head[-1].out_bytes


def patched_bytes(layers: Sequence[ChainLayer], head: int, patch: int, *, split: bool = False) -> int:
    """Return the peak of a network whose first `head` layers run by patches and the others layer by layer."""
    rest = [layer_bytes(layer) for layer in layers[head:]]
    return max([head_bytes(layers[:head], patch, split=split), *rest] if head else rest)


def patched_macs(layers: Sequence[ChainLayer], head: int, patch: int, *, clipped: bool = False, split: bool = False) -> int:
    """Return what the same run executes."""
    return sum(head_macs(layers[:head], patch, clipped=clipped, split=split)) + macs(layers[head:])


def head_macs(head: Sequence[ChainLayer], patch: int, *, clipped: bool = False, split: bool = False) -> list[int]:
    """Return what each layer of a head executes; clipped: patches end where the maps do, which the thesis leaves out.

    Padding within a window counts, as the thesis has it.
    """
    if not head:
        return []
    side, counts = head[-1].h_out, list[int]()
    # along one axis, of each patch
    spans = [(at, min(at + patch, side) if clipped else at + patch) for at in range(0, side, patch)]
    for layer in reversed(head):
        counts.append(sum(end - begin for begin, end in spans) ** 2 * layer.macs_per_pixel)  # of all pairs of spans
        spans = [_read(layer, span, clipped=clipped, split=split) for span in spans]
    return counts[::-1]


def _read(layer: ChainLayer, span: Span, *, clipped: bool, split: bool) -> Span:
    """Return the rows of its input that some of a layer's output read."""
    begin, end = span[0] * layer.stride[0], span[1] * layer.stride[0]
    if not split:
        begin -= layer.padding[0][0]
        end += layer.kernel[0] - layer.stride[0] - layer.padding[0][0]
    return (max(begin, 0), min(end, layer.h)) if clipped else (begin, end)


class Patched(NamedTuple):
    """The first `head` layers by patches of so many rows and columns, by the thesis' count; with head 0 none are."""

    head: int
    patch: int
    ram: int
    macs: int


def all_patched(layers: Sequence[ChainLayer]) -> list[Patched]:
    """Return the network layer by layer, and every head with every number of patches, as small as so many can be."""
    cut = [
        (head, patch)
        for head, last in enumerate(layers, 1)
        for patch in sorted({-(-last.h_out // count) for count in range(2, last.h_out + 1)})
    ]
    return [Patched(*run, patched_bytes(layers, *run), patched_macs(layers, *run)) for run in ((0, 0), *cut)]


def largest_input(c_in: int, c_out: int, ram: int) -> int:
    """Return the side of the largest square input of a layer of stride 1 that fits, with its output, into so many bytes."""
    return isqrt(ram // (c_in + c_out))
