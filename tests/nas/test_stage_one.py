"""Stage one: what fits, the thesis' own figures, and the trends of its map."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from cases.archs import any_arch

from tinyweave.nas.arch import Arch, Group, blocks, layers, macs
from tinyweave.nas.arena import arena
from tinyweave.nas.space import MOBILE, arch_of, sampled
from tinyweave.nas.stage_one import StageLimits, chosen, fits, layer_bytes, stage_one, unfused_bytes
from tinyweave.papers.patches import all_patched, patched_macs

KIB = 1024


def test_a_layer_s_bytes() -> None:
    arch = Arch((8, 8, 3), 4, (Group(8, 2, (3,), (2,)),))
    assert layer_bytes(arch) == max(8 * 8 * 3 + 4 * 4 * 4, 4 * 4 * 4 + 4 * 4 * 8, 4 * 4 * 8, 2 * 2 * 8 + 2 * 2 * 8)


def test_no_plan_needs_more_than_layers_one_by_one() -> None:
    for seed in range(60):
        arch = any_arch(random.Random(seed), (8, 40), 3)
        assert arena(arch) <= unfused_bytes(arch)


def test_the_80th_percentile_of_the_thesis_recipe() -> None:
    """50.6 M for width 0.5 at 144 pixels with 320 KiB and 1 MiB, within 1 M for other seeds."""
    space = replace(MOBILE, sizes=((144, 144),), widths=(0.5,))
    (setting,) = stage_one(space, StageLimits(320 * KIB, 1024 * KIB, "layer"), 100, 1000)
    assert setting.p80 == pytest.approx(50.6e6, abs=1e6) and setting.mean == pytest.approx(44.5e6, abs=1e6)
    assert setting.drawn == 1000 and 0 < setting.share <= 1


def test_more_sram_means_higher_resolution_and_more_flash_wider_networks() -> None:
    """Figure 5-5 of the thesis, layer by layer."""
    space = replace(MOBILE, sizes=MOBILE.sizes[::2], widths=MOBILE.widths[::2])

    def best(ram: int, flash: int) -> tuple[int, float]:
        setting = chosen(stage_one(space, StageLimits(ram * KIB, flash * KIB, "layer"), 1000, 40), "mean")
        return setting.size[0], setting.width

    assert best(192, 1024)[0] < best(512, 1024)[0]
    assert best(320, 512)[1] < best(320, 2048)[1]


def test_a_better_planner_fits_more() -> None:
    space = replace(MOBILE, sizes=((160, 160),), widths=(0.4,))
    (layer,), (best,) = (
        stage_one(space, StageLimits(96 * KIB, 1024 * KIB, schedule, stream_inputs=True), 100, 30)
        for schedule in ("layer", "best")
    )
    assert best.share > layer.share and chosen([layer, best]) is best


def test_patches_fit_where_some_head_and_some_patches_do() -> None:
    """All heads with all patches, one by one; within so much work that the smallest patches are not always among them."""
    said = Counter[tuple[bool, bool]]()
    for seed in range(60):
        rng = random.Random(seed)
        arch = arch_of(MOBILE, sampled(MOBILE, rng, (48, 48), 0.3), 10)
        every, work = layers(blocks(arch)), rng.choice((1.02, 1.15, 2.0))
        limits = StageLimits(round(layer_bytes(arch) * rng.uniform(0.2, 1.1)), 1 << 22, "patch", max_mac_overhead=work)
        runs = [run for run in all_patched(every) if run.ram <= limits.ram]
        allowed = [run for run in runs if not run.head or _work(every, run) <= work * macs(arch)]
        assert fits(arch, limits) == bool(allowed), seed
        said[bool(runs), bool(allowed)] += 1
    assert min(said[True, True], said[True, False], said[False, False]) > 0


def _work(every, run):
    return patched_macs(every, run.head, run.patch, clipped=True)


def test_processes_find_the_same() -> None:
    space = replace(MOBILE, sizes=MOBILE.sizes[:2], widths=MOBILE.widths[:2])
    limits = StageLimits(64 * KIB, 256 * KIB, "layer")
    assert stage_one(space, limits, 10, 20, processes=2) == stage_one(space, limits, 10, 20)


def test_flash_is_a_limit_too() -> None:
    arch = arch_of(MOBILE, sampled(MOBILE, random.Random(1), (96, 96), 0.5), 100)
    assert fits(arch, StageLimits(1 << 22, 1 << 22)) and not fits(arch, StageLimits(1 << 22, 10_000))
