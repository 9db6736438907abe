"""Search spaces: samples, mutants and crossovers stay inside; TinyNAS' space has the published number of networks."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from tinynas.arch import PlanGene, blocks, macs
from tinynas.space import (
    MOBILE,
    MOBILE_1280,
    Choice,
    SearchSpace,
    arch_of,
    crossover,
    keywords,
    largest,
    mobilenet_v3,
    mutate,
    networks_in,
    sample,
    sensors,
    small_images,
    smallest,
    with_plan_genes,
)

SPACES = (
    *(MOBILE, MOBILE_1280, small_images(), small_images((24, 32, 48), 1), keywords(), keywords((49, 40)), sensors(128, 3)),
    *(mobilenet_v3(), mobilenet_v3(((64, 48), (80, 60)), 1, by_group=True)),
    with_plan_genes(small_images((32, 48)), stream_inputs=True, max_mac_overhead=1.2),
)


def is_in(space: SearchSpace, choice: Choice) -> bool:
    return (
        choice.size in space.sizes
        and {choice.width, *choice.widths} <= set(space.widths)
        and len(choice.widths) == (len(space.groups) if space.by_group else 0)
        and choice.plan in (space.plans or (None,))
        and choice.redistributed <= space.redistributable
        and choice.pooling in space.poolings
        and all(
            len(blocks) in group.depths and all(k in group.kernels and e in group.expansions for k, e in blocks)
            for group, blocks in zip(space.groups, choice.blocks, strict=True)
        )
    )


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.name)
def test_samples_mutants_and_children_are_in_their_space(space: SearchSpace) -> None:
    rng, parents = random.Random(3), [sample(space, random.Random(seed)) for seed in range(30)]
    assert all(is_in(space, choice) for choice in (*parents, largest(space), smallest(space)))
    for number, parent in enumerate(parents):
        child, changed = crossover(parent, parents[number - 1], rng), mutate(space, parent, 0.3, rng)
        assert is_in(space, child) and is_in(space, changed)
        assert mutate(space, parent, 0, rng) == parent and crossover(parent, parent, rng) == parent
    sizes = [macs(arch_of(space, choice, 10)) for choice in parents]
    assert macs(arch_of(space, smallest(space), 10)) <= min(sizes) and max(sizes) <= macs(arch_of(space, largest(space), 10))
    assert len({*map(str, parents)}) > 20 and sample(space, random.Random(0)) == parents[0]


def test_the_tinynas_space_has_the_published_number_of_networks() -> None:
    assert networks_in(MOBILE) == 108 * 7371**5 * 9, "9 + 81 + ... of five stages with 2, 3 or 4 blocks, and 9 of the last"
    assert 7371 == 9**2 + 9**3 + 9**4
    arch = arch_of(MOBILE, largest(MOBILE, (144, 144), 0.5), 100)
    assert [group.width for group in arch.groups] == [8, 16, 24, 40, 48, 96, 160] and (arch.stem, arch.last) == (16, 0)
    assert arch_of(MOBILE_1280, sample(MOBILE_1280, random.Random(1), width=0.3), 100).last == 1280
    assert arch_of(MOBILE_1280, sample(MOBILE_1280, random.Random(1), width=1.0), 100).last == 1280


def test_the_mobilenet_v3_space_has_the_groups_of_mobilenet_v3_large() -> None:
    """The groups have its channels, squeeze-and-excitation and hard-swish."""
    space = mobilenet_v3()
    assert networks_in(space) == 9 * 3 * (9**2 + 9**3 + 9**4) ** 5
    assert networks_in(mobilenet_v3(by_group=True)) == networks_in(space) * 3**6
    arch = arch_of(space, largest(space), 1000)
    assert [(group.width, group.stride, group.squeeze) for group in arch.groups] == [
        *((16, 1, 0), (24, 2, 0), (40, 2, 4), (80, 2, 0), (112, 1, 4), (160, 2, 4)),
    ]
    assert [group.activation for group in arch.groups] == ["relu6"] * 3 + ["hard_swish"] * 3
    assert (arch.stem, arch.last, arch.activation, arch.image) == (16, 960, "hard_swish", (256, 256, 3))
    assert arch_of(space, largest(space, width=0.5), 2).last == 480, "a joint space makes the last one narrower, too"
    squeezed = [block.squeezed for block in blocks(arch)]
    assert squeezed == [0] * 6 + [40, 64, 64, 64] + [0] * 4 + [120, 168, 168, 168] + [168, 240, 240, 240] + [0]


def test_each_group_may_have_its_own_width() -> None:
    space = mobilenet_v3(by_group=True)
    choice = smallest(space)._replace(width=0.75, widths=(0.5, 1.0, 0.75, 0.5, 1.0, 0.75))
    arch = arch_of(space, choice, 10)
    assert [group.width for group in arch.groups] == [8, 24, 32, 40, 112, 120] and (arch.stem, arch.last) == (16, 720)
    assert sample(space, random.Random(0), width=0.75).widths == (0.75,) * 6, "a width that is asked for is that of all"
    other, rng = choice._replace(widths=(1.0,) * 6), random.Random(1)
    crossings = Counter(width for _ in range(200) for width in crossover(choice, other, rng).widths[3:4])
    assert set(crossings) == {0.5, 1.0} and min(crossings.values()) > 60
    mutants = [mutate(space, choice, 0.3, rng).widths for _ in range(500)]
    changed = sum(own != new for widths in mutants for own, new in zip(choice.widths, widths, strict=True))
    assert abs(changed - 500 * 6 * 0.3 * 2 / 3) < 100, "one of three draws is the same again"


def test_plan_genes_are_ordered_from_most_to_least_ram() -> None:
    """Genes that the options do not allow are left out."""
    unfused, best, by_rows, again = PlanGene("unfused"), PlanGene(), PlanGene("best", True), PlanGene("best", True, 1.2)
    space = with_plan_genes(small_images(), stream_inputs=True, max_mac_overhead=1.2)
    assert space.plans == (unfused, best, by_rows, again) and space.name == "small_images_planned"
    assert with_plan_genes(small_images(), stream_inputs=False, max_mac_overhead=None).plans == (unfused, best)
    assert networks_in(space) == 8 * networks_in(small_images()) and smallest(space).plan == again
    drawn = [sample(space, random.Random(seed)) for seed in range(400)]
    for picked in (Counter(choice.plan for choice in drawn), Counter(choice.redistributed for choice in drawn)):
        assert len(picked) in (2, 4) and min(picked.values()) > 0.7 * len(drawn) / len(picked)
    assert arch_of(space, drawn[0], 10).plan == drawn[0].plan
    children = [crossover(drawn[0]._replace(plan=unfused), drawn[0]._replace(plan=again), random.Random(n)) for n in range(40)]
    assert {child.plan for child in children} == {unfused, again}


def test_redistribution_removes_kernels_of_patched_blocks() -> None:
    """The patched blocks end at maps an eighth of the image. Layers with a stride keep a kernel of 3.

    Depths and expansions stay.
    """
    space = replace(MOBILE, redistributable=True)
    choice = largest(space, (96, 96), 0.5)._replace(redistributed=True)
    kernels = [group.kernels for group in arch_of(space, choice, 10).groups]
    assert kernels == [(1,), (3, 1, 1, 1), (3, 7, 7, 7), (7,) * 4, (7,) * 4, (7,) * 4, (7,)]
    whole = arch_of(space, choice._replace(redistributed=False), 10)
    for number, group in enumerate(arch_of(space, choice, 10).groups):
        assert replace(group, kernels=whole.groups[number].kernels) == whole.groups[number]


def test_all_values_of_a_gene_are_sampled_equally_often() -> None:
    space = small_images()
    drawn = [sample(space, random.Random(seed)) for seed in range(3000)]
    for picked in (
        Counter(choice.width for choice in drawn),
        Counter(len(choice.blocks[1]) for choice in drawn),
        Counter(choice.blocks[0][0][0] for choice in drawn),
        Counter(choice.pooling for choice in drawn),
    ):
        expected = len(drawn) / len(picked)
        assert all(abs(times - expected) < 5 * expected**0.5 for times in picked.values())


def test_a_gene_mutates_with_the_probability_of_the_rate() -> None:
    space, rng = MOBILE, random.Random(5)
    start = sample(space, rng)
    changed = sum(mutate(space, start, 0.1, rng).width != start.width for _ in range(2000))
    assert abs(changed - 2000 * 0.1 * 8 / 9) < 60, "one of nine draws is the same again"


def test_maps_of_one_row_have_windows_of_one_row() -> None:
    for block in blocks(arch_of(sensors(128, 3), largest(sensors(128, 3)), 4)):
        for layer in block.layers:
            assert (layer.h, layer.h_out, layer.kernel[0], layer.stride[0]) == (1, 1, 1, 1)
