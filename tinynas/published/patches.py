"""The counting rule `patch_paper`: RAM and MACs of a network whose first layers run patch by patch, as in the MCUNet thesis.

In: ChainLayers on square maps. Out: patch sizes, bytes, MACs. Overlaps of patches between the patched layers are recomputed;
with `split` there are none, which changes the network. Depthwise layers run in place. Skip connections, scratch and the whole
image are not counted. Source: J. Lin's thesis on tiny deep learning (MIT), chapter 4, eq. 4.1; arXiv 2110.15352 (MCUNetV2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tinyweave.ops.window import ChainLayer

Span = tuple[int, int]


def macs(layers: Sequence[ChainLayer]) -> int:
    """Return the multiply-accumulates of all layers, run one after another; taps on padding count."""
    return sum(layer.macs for layer in layers)


def receptive_fields(layers: Sequence[ChainLayer], patch: int = 1, *, split: bool = False) -> list[int]:
    """Return the rows that `patch` output rows depend on at the input of each layer, then `patch` (eq. 4.1).

    With `split`, strides enlarge patches, kernels do not.
    """
    sides = [patch]
    for layer in reversed(layers):
        sides.append(sides[-1] * layer.stride[0] if split else (sides[-1] - 1) * layer.stride[0] + layer.kernel[0])
    return sides[::-1]


def layer_bytes(layer: ChainLayer, *, in_place: bool = True) -> int:
    """Return the bytes of a layer's input plus output, or of the larger if a depthwise layer runs `in_place`."""
    return max(layer.in_bytes, layer.out_bytes) if layer.depthwise and in_place else layer.in_bytes + layer.out_bytes


def peak_bytes(layers: Sequence[ChainLayer], *, in_place: bool = True) -> int:
    """Return the peak RAM of a layer-by-layer run in bytes, with depthwise layers `in_place` or not."""
    return max(layer_bytes(layer, in_place=in_place) for layer in layers)


def bytes_by_patch(layers: Sequence[ChainLayer], patch: int, *, split: bool = False) -> int:
    """Return the peak RAM, in bytes, of layers that run by patches, of side `patch` on the last layer's output.

    That is the whole output of the last layer, and the largest input and output patches of one layer.
    """
    maps = [(layer.h, layer.c_in) for layer in layers] + [(layers[-1].h_out, layers[-1].c_out)]
    sides = [min(side, extent) for side, (extent, _) in zip(receptive_fields(layers, patch, split=split), maps, strict=True)]
    patches = [side * side * c for side, (_, c) in zip(sides, maps, strict=True)]
    pairs = zip(layers, patches[:-1], patches[1:], strict=True)
    step_bytes = [max(a, b) if layer.depthwise else a + b for layer, a, b in pairs]
    return max(step_bytes) + layers[-1].out_bytes


def patched_bytes(layers: Sequence[ChainLayer], patched: int, patch: int, *, split: bool = False) -> int:
    """Return the peak RAM in bytes if the first `patched` layers run by patches of side `patch`, the others unfused."""
    rest = [layer_bytes(layer) for layer in layers[patched:]]
    return max([bytes_by_patch(layers[:patched], patch, split=split), *rest] if patched else rest)


def patched_macs(layers: Sequence[ChainLayer], patched: int, patch: int, *, clipped: bool = False, split: bool = False) -> int:
    """Return the MACs if the first `patched` layers run by patches, the others unfused; others as for `macs_by_patch`."""
    return sum(macs_by_patch(layers[:patched], patch, clipped=clipped, split=split)) + macs(layers[patched:])


def macs_by_patch(layers: Sequence[ChainLayer], patch: int, *, clipped: bool = False, split: bool = False) -> list[int]:
    """Return the MACs of each layer if all run by patches of side `patch` on the last output; taps on padding count.

    If `clipped`, patches end at the edges of maps; else they extend beyond, as the MCUNet thesis counts.
    """
    if not layers:
        return []
    side, counts = layers[-1].h_out, list[int]()
    # the output rows of each patch, also its columns, since maps are square
    spans = [(at, min(at + patch, side) if clipped else at + patch) for at in range(0, side, patch)]
    for layer in reversed(layers):
        counts.append(sum(end - begin for begin, end in spans) ** 2 * layer.macs_per_pixel)  # patches are all pairs of spans
        spans = [_read(layer, span, clipped=clipped, split=split) for span in spans]
    return counts[::-1]


def _read(layer: ChainLayer, span: Span, *, clipped: bool, split: bool) -> Span:
    """Return the input rows [begin, end) that a layer reads for the output rows `span`, inside the map if `clipped`."""
    begin, end = span[0] * layer.stride[0], span[1] * layer.stride[0]
    if not split:
        begin -= layer.padding[0][0]
        end += layer.kernel[0] - layer.stride[0] - layer.padding[0][0]
    return (max(begin, 0), min(end, layer.h)) if clipped else (begin, end)


class Patched(NamedTuple):
    """RAM and MACs of a network whose first layers run patch by patch, the others layer by layer."""

    patched: int  # number of layers that run patch by patch; 0 for layer by layer
    patch: int  # rows and columns of a patch of the last patched layer's output
    ram: int  # bytes
    macs: int


def all_patched(layers: Sequence[ChainLayer]) -> list[Patched]:
    """Return RAM and MACs unfused, then of each number of first layers in patches of each size with 2 or more per side."""
    cut = [
        (patched, patch)
        for patched, last in enumerate(layers, 1)
        for patch in sorted({-(-last.h_out // count) for count in range(2, last.h_out + 1)})
    ]
    return [Patched(*run, patched_bytes(layers, *run), patched_macs(layers, *run)) for run in ((0, 0), *cut)]
