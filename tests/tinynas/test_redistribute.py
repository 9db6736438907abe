"""Receptive field redistribution: the example of the MCUNet thesis, and properties that hold for any architecture."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from cases.mobile import published

from tinynas.arch import Arch, Group, blocks, layers, macs, mobilenet_v2, verify, weights
from tinynas.published.redistribute import by_patches, patched_blocks, redistributed
from tinyweave.ir import CompileError

MOBILENET = mobilenet_v2()
NEAR = 0.06  # most change of MACs or weights in published networks; the largest is 5.97 %, of MCUNet-256KB
THESIS_BLOCKS = (2, 5)  # the project's reading of the thesis: one more block of 32 channels and one of 160


def test_the_thesis_example_with_the_blocks_of_the_thesis() -> None:
    """The receptive field shrinks from 75 to 63, MACs by patches to 309.2 M, the overhead to 3.80 % (facts, section 5)."""
    new = redistributed(MOBILENET, added=THESIS_BLOCKS)
    before, after = by_patches(MOBILENET, 7), by_patches(new, 7)
    assert (before.fields[0], after.fields[0]) == (75, 63)
    assert (round(before.macs / 1e6, 1), round(after.macs / 1e6, 1)) == (339.0, 309.2)
    assert (round(before.overhead, 3), round(after.overhead, 4)) == (0.127, 0.038)
    assert before.ram == after.ram == 171.5 * 1024
    assert [len(group.kernels) for group in new.groups] == [1, 1, 4, 4, 3, 4, 1]
    assert [layer.kernel for layer in layers(blocks(new)[:2])] == [(3, 3), (1, 1)], "the first bottleneck has no depthwise"
    assert round(macs(new) / macs(MOBILENET) - 1, 4) == -0.0096
    assert round(weights(new) / weights(MOBILENET) - 1, 4) == 0.0926


def test_the_thesis_example_with_automatically_chosen_blocks() -> None:
    """The receptive field, 63, and the overhead, 3.7 %, are those of the thesis.

    The MACs differ from its 309.2 M because the chosen blocks keep MACs and weights within 1.2 %, not 1.0 and 9.3 %.
    """
    new = redistributed(MOBILENET)
    after = by_patches(new, 7)
    assert after.fields == (63, 31, 31, 31, 15, 15, 15, 7, 7)
    assert f"{after.overhead:.2%}" == "3.72%"
    assert after.ram == 171.5 * 1024
    assert [len(group.kernels) for group in new.groups] == [1, 1, 6, 4, 3, 3, 1], "three blocks of 32 channels more"
    assert round(macs(new) / macs(MOBILENET) - 1, 4) == 0.0120
    assert round(weights(new) / weights(MOBILENET) - 1, 4) == 0.0097
    assert round(after.macs / 1e6, 1) == 315.7


def test_an_image_split_into_parts_has_no_halo() -> None:
    """The thesis compares a receptive field of 56, 300 M MACs and the same memory."""
    parts = by_patches(MOBILENET, 7, split=True)
    assert (parts.fields[0], parts.macs, parts.ram) == (56, macs(MOBILENET), 171.5 * 1024)
    assert parts.overhead == 0 and set(parts.halo) == {0}


def test_the_halo_shrinks_from_the_first_layer_to_the_last() -> None:
    """The first convolution computes 16 patches of 37 x 37 for its 112 x 112 outputs; the last layer computes no halo."""
    found = by_patches(MOBILENET, 7)
    assert len(found.halo) + 1 == len(found.fields) == 13
    assert found.halo[0] == pytest.approx((4 * 37 / 112) ** 2 - 1)
    assert found.halo[-1] == 0 and list(found.halo) == sorted(found.halo, reverse=True)
    assert max(by_patches(MOBILENET, 28, clipped=True).halo) == 0, "one patch is the whole map"


def random_arch(rng: random.Random) -> Arch:
    """Return a random architecture similar to those of TinyNAS' space."""
    groups = [Group(rng.choice((8, 16)), 1, (rng.choice((3, 5)),), (1,))]
    for number, stride in enumerate((2, 2, 2, 1, 2, 1)):
        depth = rng.choice((2, 3, 4)) if number < 5 else 1
        kernels, expansions = (tuple(rng.choices(choices, k=depth)) for choices in ((3, 5, 7), (3, 4, 6)))
        groups.append(Group(8 * rng.randint(number + 1, 2 * number + 3), stride, kernels, expansions))
    side = 16 * rng.randint(6, 14)
    return verify(Arch((side, side, 3), 8 * rng.randint(1, 4), tuple(groups), rng.choice((0, 256)), 100))


def changes(arch: Arch, factor: int) -> tuple[float, float]:
    """Check the properties of a redistribution and return the relative change of MACs and of weights."""
    new = redistributed(arch, factor)
    old_patched, patched = (layers(blocks(a)[: patched_blocks(a, factor)]) for a in (arch, new))
    old_steps, steps = ([(x.h, x.h_out) for x in layers(blocks(a)) if x.stride == (2, 2)] for a in (arch, new))
    assert steps == old_steps, "the downsampling is kept"
    assert all(layer.kernel == ((3, 3) if layer.stride == (2, 2) else (1, 1)) for layer in patched)
    assert patched[-1].h_out == old_patched[-1].h_out and patched[-1].c_out == old_patched[-1].c_out
    rest, old_rest = (a.groups[patched_groups(a, factor) :] for a in (new, arch))
    assert [g.width for g in rest] == [g.width for g in old_rest]
    for group, old in zip(rest, old_rest, strict=True):
        assert group.kernels[: len(old.kernels)] == old.kernels, "blocks are only added"
        assert set(zip(group.kernels, group.expansions, strict=True)) <= set(zip(old.kernels, old.expansions, strict=True))
    patch = max(1, patched[-1].h_out // 4)
    before, after = (by_patches(a, patch, factor, clipped=True) for a in (arch, new))
    assert after.fields[0] == patch * factor + factor - 1 <= before.fields[0], "no smaller one has these strides and windows"
    assert after.overhead <= before.overhead and after.ram <= before.ram
    if len(old_patched) > len(patched):
        assert after.fields[0] < before.fields[0] and after.overhead < before.overhead
    return macs(new) / macs(arch) - 1, weights(new) / weights(arch) - 1


def patched_groups(arch: Arch, factor: int) -> int:
    """Return the number of groups with patched blocks."""
    inside, number = patched_blocks(arch, factor) - 1, 0
    while inside > 0:
        inside, number = inside - len(arch.groups[number].kernels), number + 1
    return number


def least_change(arch: Arch, factor: int) -> float:
    """Return a lower bound on the change: after the patched blocks a weight adds at most one MAC per pixel."""
    bare = redistributed(arch, factor, added=())
    pixels = layers(blocks(bare)[: patched_blocks(bare, factor)])[-1].h_out ** 2
    work, size = (1 - now / before for now, before in ((macs(bare), macs(arch)), (weights(bare), weights(arch))))
    more = (work + size) / (pixels / macs(arch) + 1 / weights(arch))  # MACs fall as far as weights rise
    return max(0.0, more / weights(arch) - size)


@pytest.mark.parametrize("factor", [2, 4, 8])
@pytest.mark.parametrize("seed", range(12))
def test_redistribution_of_random_architectures_comes_close_to_the_least_change(seed: int, factor: int) -> None:
    """If most MACs are in the patched blocks, no other layers have as many MACs with so few weights: the bound is above 0."""
    arch = random_arch(random.Random(seed))
    (work, size), least = changes(arch, factor), least_change(arch, factor)
    print(f"seed {seed}, factor {factor}: MACs {work:+.2%}, weights {size:+.2%}; at least {least:.2%}")
    assert least - 1e-9 <= max(abs(work), abs(size)) < least + 0.05, "a handful of whole blocks comes close"
    assert factor > 2 or work == size == 0, "the first convolution alone stays"


@pytest.mark.parametrize("width", [0.35, 0.5, 0.75, 1.0])
def test_redistribution_changes_mobilenets_by_less_than_2_percent(width: float) -> None:
    for factor in (4, 8):
        work, size = changes(mobilenet_v2(224, width), factor)
        print(f"width {width}, factor {factor}: MACs {work:+.2%}, weights {size:+.2%}")
        assert max(abs(work), abs(size)) < 0.02


@pytest.mark.shared
def test_redistribution_changes_published_networks_by_less_than_6_percent(shared: Path) -> None:
    for path in sorted((shared / "nets" / "mcunet").glob("*.json")):
        if not path.stem.endswith(".layers"):
            for factor in (4, 8):
                work, size = changes(published(path), factor)
                print(f"{path.stem}, factor {factor}: MACs {work:+.2%}, weights {size:+.2%}")
                assert max(abs(work), abs(size)) < NEAR


def test_a_block_that_changes_no_shape_is_removed_with_its_group() -> None:
    arch = Arch((64, 64, 3), 16, (Group(16, 1, (5, 5), (1, 3)), Group(24, 2, (7, 3), (4, 4)), Group(32, 2, (3,), (6,))))
    assert redistributed(arch, 4, added=()).groups == (Group(24, 2, (3, 3), (4, 4)), arch.groups[2])
    assert redistributed(arch, 8, added=(2,)).groups == (Group(24, 2, (3,), (4,)), Group(32, 2, (3, 3), (6, 6)))


def test_impossible_redistributions_are_refused() -> None:
    with pytest.raises(CompileError, match="no map is 64 times smaller"):
        redistributed(MOBILENET, 64)
    with pytest.raises(CompileError, match="no map is 3 times smaller"):
        by_patches(MOBILENET, 7, 3)
    with pytest.raises(CompileError, match="no block can be added to group 1; give one of 2 to 6"):
        redistributed(MOBILENET, added=(2, 1))
