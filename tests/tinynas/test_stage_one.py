"""Stage one of TinyNAS: which networks fit, which settings are feasible, and the choices of the thesis and the lecture."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from cases.archs import any_arch

from tinynas.arch import Arch, Group, blocks, layers, macs
from tinynas.published.patches import all_patched, patched_macs
from tinynas.ram.arena import arena
from tinynas.space import MOBILE, arch_of, sample
from tinynas.stage_one import (
    Setting,
    StageLimits,
    best_setting,
    check_share,
    fits,
    layer_bytes,
    limits_for_share,
    most_feasible,
    stage_one,
    stage_one_per_limit,
    unfused_bytes,
)
from tinyweave.ir import CompileError

KIB = 1024


def test_layer_bytes_is_the_largest_input_plus_output() -> None:
    arch = Arch((8, 8, 3), 4, (Group(8, 2, (3,), (2,)),))
    assert layer_bytes(arch) == max(8 * 8 * 3 + 4 * 4 * 4, 4 * 4 * 4 + 4 * 4 * 8, 4 * 4 * 8, 2 * 2 * 8 + 2 * 2 * 8)


def test_the_best_plan_needs_at_most_the_ram_of_unfused_layers() -> None:
    for seed in range(60):
        arch = any_arch(random.Random(seed), (8, 40), 3)
        assert arena(arch) <= unfused_bytes(arch)


def test_the_80th_percentile_of_macs_equals_that_of_the_thesis() -> None:
    """Figure 3-2: at width 0.5, 144 pixels, 320 KiB of RAM and 1 MiB of Flash, 20 % have more than 50.3 M MACs."""
    space = replace(MOBILE, sizes=((144, 144),), widths=(0.5,))
    (setting,) = stage_one(space, StageLimits(320 * KIB, 1024 * KIB, "layer"), 100, 1000)
    assert setting.p80 == pytest.approx(50.3e6, abs=1e6) and setting.mean == pytest.approx(44.5e6, abs=1e6)
    assert setting.samples == 1000 and setting.share == 1


@pytest.fixture(scope="module")
def stars() -> Callable[..., tuple[int, float]]:
    """Return a function from KiB of RAM and Flash to the image size and width chosen from 60 networks per setting."""
    pairs = (320, 1024), (320, 512), (192, 512), (512, 512), (192, 2048)
    limits = [StageLimits(ram * KIB, flash * KIB, "layer") for ram, flash in pairs]
    found = dict[tuple[int, int], tuple[int, float]]()
    for pair, settings in zip(pairs, stage_one_per_limit(MOBILE, limits, 100, 60), strict=True):
        best = best_setting(settings)
        assert best is not None and best.size is not None and best.share >= 0.8 and best_setting(settings, "mean") is best
        found[pair] = best.size[0], best.width
    return lambda ram, flash: found[ram, flash]


def test_the_chosen_settings_are_those_of_the_thesis_and_the_lecture(stars: Callable[..., tuple[int, float]]) -> None:
    """With 320 KiB of RAM: w0.5-r144 at 1 MiB of Flash (figure 3-2), w0.4-r144 at 512 KiB (chapter 4 of the lecture)."""
    assert stars(320, 1024) == (144, 0.5) and stars(320, 512) == (144, 0.4)


def test_chosen_settings_follow_the_trends_of_figure_5_5(stars: Callable[..., tuple[int, float]]) -> None:
    """More Flash gives a larger width.

    More SRAM at little Flash (points 1 and 2) gives a higher resolution at the same width. More Flash at little SRAM
    (points 1 and 3) gives a larger width at a lower resolution.
    """
    assert stars(320, 512)[1] < stars(320, 1024)[1]
    (side, width), (more_side, same_width), (most_side, still) = (stars(ram, 512) for ram in (192, 320, 512))
    assert side < more_side < most_side and width == same_width == still
    assert stars(192, 2048)[1] > width and stars(192, 2048)[0] < side


def setting(width: float, fit: int, macs: int) -> Setting:
    return Setting((96, 96), width, (macs,) * fit, 20)


def test_a_setting_in_which_few_networks_fit_is_not_chosen() -> None:
    few, edge, enough_of, least = setting(0.5, 1, 900), setting(0.4, 15, 800), setting(0.3, 16, 700), setting(0.2, 20, 600)
    for by in ("p80", "mean"):
        assert best_setting([few, edge, enough_of, least], by) is enough_of
        assert best_setting([few, edge, enough_of, least], by, share=0.75) is edge
        assert best_setting([few, edge, enough_of, least], by, share=0.05) is few
        assert best_setting([few, edge, enough_of, least], by, share=1) is least
        assert best_setting([few, edge], by) is None
    assert most_feasible([few, edge, setting(0.6, 15, 999)]) is edge
    for share in (0, -1, 1.01, float("nan")):
        with pytest.raises(CompileError, match=r"out of range; give more than 0 and at most 1: 0\.8 is usual"):
            check_share(share)


def test_limits_for_a_share_follow_the_networks_that_exceed_the_limits_least() -> None:
    needs = [{"ram": ram, "flash": flash} for ram, flash in ((5, 5), (12, 90), (11, 120), (300, 5), (10, 101))]
    assert limits_for_share(needs, {"ram": 10, "flash": 100}, 0.8) == {"ram": 12, "flash": 120}
    assert limits_for_share(needs, {"ram": 10, "flash": 100}, 0.7) == {"ram": 12, "flash": 120}, "3.5 of 5 are 4"
    assert limits_for_share(needs, {"ram": 10, "flash": 100}, 0.6) == {"ram": 12, "flash": 101}
    assert limits_for_share(needs, {"ram": 10, "flash": 100}, 1) == {"ram": 300, "flash": 120}
    assert limits_for_share([{"ram": n} for n in range(1, 101)], {"ram": 1}, 0.07) == {"ram": 7}, (
        "not 8 for 0.07 * 100 = 7.000000000000001"
    )


def test_more_networks_fit_with_the_best_strategy() -> None:
    space = replace(MOBILE, sizes=((160, 160),), widths=(0.4,))
    (layer,), (best,) = (
        stage_one(space, StageLimits(96 * KIB, 1024 * KIB, schedule, stream_inputs=True), 100, 30)
        for schedule in ("layer", "best")
    )
    assert best.share > layer.share and most_feasible([layer, best]) is best


def test_a_network_fits_by_patches_if_some_layers_and_patch_size_fit() -> None:
    """Compare with an enumeration of all numbers of patched layers and all patch sizes.

    The limit of MACs sometimes excludes the smallest patches.
    """
    said = Counter[tuple[bool, bool]]()
    for seed in range(60):
        rng = random.Random(seed)
        arch = arch_of(MOBILE, sample(MOBILE, rng, (48, 48), 0.3), 10)
        every, work = layers(blocks(arch)), rng.choice((1.02, 1.15, 2.0))
        limits = StageLimits(round(layer_bytes(arch) * rng.uniform(0.2, 1.1)), 1 << 22, "patch", max_mac_overhead=work)
        runs = [run for run in all_patched(every) if run.ram <= limits.ram]
        allowed = [run for run in runs if not run.patched or _work(every, run) <= work * macs(arch)]
        assert fits(arch, limits) == bool(allowed), seed
        said[bool(runs), bool(allowed)] += 1
    assert min(said[True, True], said[True, False], said[False, False]) > 0


def _work(every, run):
    return patched_macs(every, run.patched, run.patch, clipped=True)


def test_two_processes_give_the_result_of_one() -> None:
    space = replace(MOBILE, sizes=MOBILE.sizes[:2], widths=MOBILE.widths[:2])
    limits = StageLimits(64 * KIB, 256 * KIB, "layer")
    assert stage_one(space, limits, 10, 20, processes=2) == stage_one(space, limits, 10, 20)


def test_a_network_above_the_flash_limit_does_not_fit() -> None:
    arch = arch_of(MOBILE, sample(MOBILE, random.Random(1), (96, 96), 0.5), 100)
    assert fits(arch, StageLimits(1 << 22, 1 << 22)) and not fits(arch, StageLimits(1 << 22, 10_000))
