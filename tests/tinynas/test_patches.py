"""The count of the MCUNet thesis: its figures for MobileNetV2, and patches compared with layer-by-layer runs."""

from __future__ import annotations

import pytest

from tinylesson.papers.chain import square
from tinynas.arch import blocks, layers, mobilenet_v2
from tinynas.published.patches import (
    all_patched,
    bytes_by_patch,
    layer_bytes,
    macs,
    macs_by_patch,
    patched_bytes,
    patched_macs,
    peak_bytes,
    receptive_fields,
)

KIB = 1024
BLOCKS = blocks(mobilenet_v2())
NET, PATCHED = layers(BLOCKS), len(layers(BLOCKS[:5]))
CLASSIFIER = 1280 * 1000


def test_the_layer_by_layer_peak_equals_that_of_the_thesis() -> None:
    assert peak_bytes(NET) == 1372 * KIB == layer_bytes(NET[3]) == 112 * 112 * (16 + 96)
    assert peak_bytes(NET, in_place=False) == 1470 * KIB


def test_the_memory_by_patches_equals_that_of_the_thesis() -> None:
    assert bytes_by_patch(NET[:PATCHED], 7) == 158.484375 * KIB
    assert patched_bytes(NET, PATCHED, 7) == 171.5 * KIB == 28 * 28 * (32 + 192), "set by the first block after the patches"
    assert round(patched_bytes(NET, PATCHED, 14) / KIB, 1) == 458.6
    assert bytes_by_patch(NET[:PATCHED], 28) == 1372 * KIB + 28 * 28 * 32, "one patch is the whole map"
    assert patched_bytes(NET, 0, 7) == peak_bytes(NET)


def test_receptive_fields_equal_those_of_the_thesis() -> None:
    assert sorted(set(receptive_fields(NET[:PATCHED], 7))) == [7, 15, 17, 35, 37, 75]
    assert receptive_fields(NET[:PATCHED], 7, split=True)[0] == 56, "an image cut into parts"
    assert receptive_fields([], 3) == [3]


def test_macs_equal_those_of_the_thesis() -> None:
    """In millions: the printed values without clipping, and exact values with clipped patches."""
    assert (macs(NET), macs(NET) + CLASSIFIER) == (299_494_272, 300_774_272)
    for patch, whole, clipped in ((7, 339.0, 328.7), (1, 737.9, 712.9)):
        found = [patched_macs(NET, PATCHED, patch, clipped=clip) + CLASSIFIER for clip in (False, True)]
        assert [round(count / 1e6, 1) for count in found] == [whole, clipped]
    assert round((patched_macs(NET, PATCHED, 7) + CLASSIFIER) / (macs(NET) + CLASSIFIER), 3) == 1.127


def test_split_patches_recompute_nothing() -> None:
    """The thesis' input split needs the MACs of a layer-by-layer run and the memory of patches."""
    for patch in (1, 2, 4, 7, 14, 28):
        assert patched_macs(NET, PATCHED, patch, split=True) == macs(NET) < patched_macs(NET, PATCHED, patch)
        assert macs_by_patch(NET[:PATCHED], patch, clipped=True, split=True) == [layer.macs for layer in NET[:PATCHED]]
    assert patched_bytes(NET, PATCHED, 7, split=True) == 171.5 * KIB == patched_bytes(NET, PATCHED, 7)
    assert bytes_by_patch(NET[:PATCHED], 7, split=True) == 28 * 28 * (16 + 96) + 28 * 28 * 32 < bytes_by_patch(NET[:PATCHED], 7)
    odd = [square(11, 2, 3, 3, 2), square(6, 3, 3, 3, 2)]
    assert macs_by_patch(odd, 1, clipped=True, split=True) == [layer.macs for layer in odd]


def test_one_clipped_patch_equals_a_layer_by_layer_run() -> None:
    for patched in range(len(NET) + 1):
        side = NET[patched - 1].h_out if patched else 1
        assert patched_macs(NET, patched, side, clipped=True) == macs(NET)


@pytest.mark.parametrize("patch", [1, 2, 3, 5])
def test_macs_of_patches_equal_a_pixel_by_pixel_count(patch: int) -> None:
    """The network is a 3x3 on 12x12, then a 3x3 with stride 2."""
    net = [square(12, 2, 3, 3), square(12, 3, 4, 3, 2)]
    inner = 0
    for row in range(0, 6, patch):
        for column in range(0, 6, patch):
            seen = {
                (2 * r + a - 1, 2 * c + b - 1)
                for r in range(row, min(row + patch, 6))
                for c in range(column, min(column + patch, 6))
                for a in range(3)
                for b in range(3)
            }
            inner += sum(0 <= r < 12 and 0 <= c < 12 for r, c in seen)
    assert patched_macs(net, 2, patch, clipped=True) == inner * net[0].macs_per_pixel + net[1].macs


def test_the_choice_of_the_thesis_needs_the_least_memory() -> None:
    """It is compared with all numbers of patched layers and patches with at most 13 % more MACs; the thesis chose 5 blocks."""
    found = all_patched(NET)
    within = [run for run in found if run.macs <= 1.13 * macs(NET)]
    assert min(within, key=lambda run: (run.ram, run.macs))[:3] == (PATCHED, 7, 171.5 * KIB)
    assert found[0] == (0, 0, 1372 * KIB, macs(NET))
