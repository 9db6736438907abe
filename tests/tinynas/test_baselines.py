"""Baselines are the largest that fit, and their strides leave a last map of at least 4 x 4."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench" / "tinynas"))

# isort: split
from baselines import KEPT, TABLES, Kept, best_ds_cnn, best_scaled, ds_cnn, kept_strides, scaled

from tinynas.arch import Arch, blocks, macs, mobilenet_v2, weights
from tinynas.costs import Overhead, Target, costs
from tinynas.published.mobile import proxyless_mobile
from tinyweave import api
from tinyweave.devices import find

SIZES = [(side, side) for side in (16, 24, 32, 48)]
NO_LIMIT = Target(None, api.limits_of(None))


def last_map(arch: Arch) -> tuple[int, int]:
    layer = blocks(arch)[-1].layers[-1]
    return layer.h_out, layer.w_out


def test_baselines_at_their_published_size_are_the_published_networks() -> None:
    for kept in KEPT:
        assert scaled("mobilenet_v2", (224, 224, 3), 1.0, 1000, kept) == mobilenet_v2()
        assert scaled("proxyless", (160, 160, 3), 0.5, 1000, kept) == proxyless_mobile(160, 0.5)


@pytest.mark.parametrize(("name", "kept"), list(product(TABLES, KEPT)))
def test_the_last_map_of_a_small_image_has_at_least_4_rows(name: str, kept: Kept) -> None:
    for side in (8, 16, 24, 32, 48, 64, 96, 100, 128):
        rows, columns = last_map(scaled(name, (side, side, 3), 0.3, 10, kept))
        assert rows == columns >= 4 and (side >= 128 or rows < 8), side
    assert last_map(scaled(name, (64, 32, 1), 0.3, 10, kept)) == (8, 4)


def test_early_strides_save_ram_and_late_ones_compute_more() -> None:
    assert kept_strides((2, 1, 2, 2, 2, 1, 2, 1), 32) == (2, 1, 2, 2, 1, 1, 1, 1)
    assert kept_strides((2, 1, 2, 2, 2, 1, 2, 1), 32, "late") == (1, 1, 1, 2, 2, 1, 2, 1)
    assert kept_strides((2, 2), 2) == (1, 1) and kept_strides((2, 2), 16) == (2, 2)
    early, late = (scaled("mobilenet_v2", (32, 32, 3), 0.35, 10, kept) for kept in KEPT)
    assert macs(late) > 2 * macs(early) and costs(early, NO_LIMIT).ram < costs(late, NO_LIMIT).ram


@pytest.mark.parametrize("name", TABLES)
def test_no_larger_baseline_fits(name: str) -> None:
    def fits(arch: Arch) -> bool:
        return weights(arch) < 150_000 and macs(arch) < 4e6

    widths = [0.1, 0.2, 0.25, 0.35, 0.5, 0.75]
    front = best_scaled(name, SIZES, 3, 10, NO_LIMIT, widths=widths, fits=fits)
    expected = set[Arch]()
    for kept in KEPT:
        grid = {(size, width): scaled(name, (*size, 3), width, 10, kept) for size, width in product(SIZES, widths)}
        fitting = [pair for pair, arch in grid.items() if fits(arch)]
        expected |= {
            grid[size, width]
            for size, width in fitting
            if not any((s, w) != (size, width) and s >= size and w >= width for s, w in fitting)
        }
    assert set(front) == expected and len(front) == len(expected) > 1
    assert [arch.image[0] for arch in front] == sorted((arch.image[0] for arch in front), reverse=True)
    assert best_scaled(name, SIZES, 3, 10, NO_LIMIT, widths=widths, fits=lambda arch: False) == []


def test_the_largest_ds_cnn_that_fits() -> None:
    (best,) = best_ds_cnn((49, 10), 12, NO_LIMIT, fits=lambda arch: weights(arch) <= 30_000)
    assert weights(best) <= 30_000 < weights(ds_cnn((49, 10), best.stem + 8, 12))
    assert last_map(best) == (25, 10) and last_map(ds_cnn((49, 40), 64, 12)) == (25, 20)
    assert weights(ds_cnn((49, 10), 64, 12)) == 45 * 64 + 4 * (9 * 64 + 64 * 64) + 64 * 12
    assert best_ds_cnn((49, 10), 12, NO_LIMIT, fits=lambda arch: False) == []


def test_the_planner_decides_which_baseline_fits() -> None:
    board = find("stm32f412")
    target = Target(board, api.limits_of(board, ram="12k", flash="160k"), stream_inputs=True, overhead=Overhead(1000, 25_000))
    (first, *_) = best_scaled("mobilenet_v2", [(32, 32)], 3, 10, target, widths=(0.1, 0.5))
    assert costs(first, target).fit and first == scaled("mobilenet_v2", (32, 32, 3), 0.1, 10)
