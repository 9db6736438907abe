"""Baselines are the largest that fit, and their strides leave a last map of at least 4 x 4."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench" / "tinynas"))

# isort: split
from baselines import TABLES, WIDTHS, best_scaled, kept_strides, scaled

from tinynas.arch import Arch, blocks, macs, mobilenet_v2, weights
from tinynas.published.mobile import proxyless_mobile

SIZES = [(side, side) for side in (16, 24, 32, 48)]


def test_baselines_at_their_published_size_are_the_published_networks() -> None:
    assert scaled("mobilenet_v2", (224, 224, 3), 1.0, 1000) == mobilenet_v2()
    assert scaled("proxyless", (160, 160, 3), 0.5, 1000) == proxyless_mobile(160, 0.5)


@pytest.mark.parametrize("name", TABLES)
def test_the_last_map_of_a_small_image_has_at_least_4_rows(name: str) -> None:
    def last_map(image: tuple[int, int, int]) -> tuple[int, int]:
        layer = blocks(scaled(name, image, 0.3, 10))[-1].layers[-1]
        return layer.h_out, layer.w_out

    for side in (8, 16, 24, 32, 48, 64, 96, 100, 128):
        rows, columns = last_map((side, side, 3))
        assert rows == columns >= 4 and (side >= 128 or rows < 8), side
    assert last_map((64, 32, 1)) == (8, 4)


def test_the_last_strides_become_1() -> None:
    assert kept_strides((2, 1, 2, 2, 2, 1, 2, 1), 32) == (2, 1, 2, 2, 1, 1, 1, 1)
    assert kept_strides((2, 2), 2) == (1, 1) and kept_strides((2, 2), 16) == (2, 2)


@pytest.mark.parametrize("name", TABLES)
def test_no_larger_baseline_fits(name: str) -> None:
    def fits(arch: Arch) -> bool:
        return weights(arch) < 150_000 and macs(arch) < 4e6

    front = best_scaled(name, SIZES, 3, 10, fits)
    grid = {(size, width): scaled(name, (*size, 3), width, 10) for size, width in product(SIZES, WIDTHS)}
    fitting = [pair for pair, arch in grid.items() if fits(arch)]
    expected = [
        grid[size, width]
        for size, width in fitting
        if not any((s, w) != (size, width) and s >= size and w >= width for s, w in fitting)
    ]
    assert front == sorted(expected, key=lambda arch: -arch.image[0]) and len(front) > 1
    assert best_scaled(name, SIZES, 3, 10, lambda arch: False) == []
