"""Candidates of a search: networks that fit, the first network, and what is drawn where little fits."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from cases.waves import waves

from tinynas import candidates, search_options
from tinynas.arch import Arch, linear, macs, nearest
from tinynas.candidates import Sampling, first_network, fitted_networks, flat_networks, sample_fitting
from tinynas.costs import Costs, Overhead, Target, costs
from tinynas.space import (
    MOBILE,
    SearchSpace,
    arch_of,
    detectors,
    families_of,
    plain,
    plain_network,
    plain_sizes,
    sensors,
    small_images,
    smallest,
)
from tinyweave import api
from tinyweave.devices import find
from tinyweave.ir import CompileError

BOARD = find("stm32f412")
SPACE = sensors(24, 2)
TARGET = Target(BOARD, api.limits_of(BOARD, ram="3k", flash="58k", latency_ms=30))


@pytest.mark.parametrize(
    ("limits", "message"), [({"ram": "500"}, "B of RAM"), ({"flash": "4k"}, "B of Flash"), ({"latency_ms": 0.01}, "ms")]
)
def test_limits_below_the_smallest_network_are_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, limits: dict[str, str], message: str
) -> None:
    monkeypatch.setattr(candidates, "MAX_SAMPLES_IF_INFEASIBLE", 16)
    target = Target(BOARD, api.limits_of(BOARD, **limits), overhead=Overhead(500, 9000))
    with pytest.raises(
        CompileError, match=f"none of .* networks sampled from the space 'sensors' fits; its smallest network needs .*{message}"
    ):
        sample_fitting(SPACE, target, 2, 3, Sampling(0), progress=lambda *_: None)


def test_if_few_networks_fit_they_are_found_near_the_smallest(monkeypatch: pytest.MonkeyPatch) -> None:
    least = macs(arch_of(SPACE, smallest(SPACE), 2))
    monkeypatch.setattr(candidates, "SAMPLES_PER_CANDIDATE", 1)
    strict = lambda arch, target: Costs(1, 1, 1, 1.0, {} if macs(arch) < 1.1 * least else {"ms": 1.0})  # noqa: E731
    monkeypatch.setattr(candidates, "costs", strict)
    monkeypatch.setattr(candidates, "quick_costs", lambda target, arch: strict(arch, target))
    told = list[str]()
    assert len(sample_fitting(SPACE, TARGET, 2, 8, Sampling(0, 1000), progress=lambda what, *_: told.append(what))) == 8
    (printed,) = (words.format(told[-1]) for begin, words in search_options.PRINTED.items() if told[-1].startswith(begin))
    assert re.fullmatch(r"has few networks to choose from: \d of \d{3} networks sampled from the space fit; .* more", printed)
    monkeypatch.setattr(candidates, "UNIFORM", 1.0)
    assert len(sample_fitting(SPACE, TARGET, 2, 8, Sampling(0, 1000), progress=lambda *_: None)) < 8


def test_sampled_candidates_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "SAMPLES_PER_CANDIDATE", 2)
    target = Target(BOARD, api.limits_of(BOARD, ram="3k", flash="40k", latency_ms=5), overhead=Overhead(500, 9000))
    told = list[str]()
    pairs = sample_fitting(SPACE, target, 2, 3, Sampling(3), progress=lambda what, *_: told.append(what))
    assert not any(what.startswith("few") for what in told)
    assert len(pairs) == 3 and all(cost.fit and cost.ram <= 3072 and cost.flash <= 40960 for _, cost in pairs)
    assert all(costs(arch, target) == cost for arch, cost in pairs)
    assert pairs == sample_fitting(SPACE, target, 2, 3, Sampling(3), progress=lambda *_: None)


def test_candidates_are_the_same_if_they_are_priced_in_parallel() -> None:
    target, calls = Target(BOARD, api.limits_of(BOARD, ram="3k", flash="40k"), overhead=Overhead(500, 9000)), list[int]()

    def price(archs: list) -> list:
        calls.append(len(archs))
        return [costs(arch, target) for arch in archs]

    pairs = sample_fitting(SPACE, target, 2, 2, Sampling(3, costs_of=price), progress=lambda *_: None)
    assert pairs == sample_fitting(SPACE, target, 2, 2, Sampling(3), progress=lambda *_: None) and max(calls) > 1


def test_networks_that_cannot_be_trained_in_time_are_not_planned() -> None:
    most, planned = 2 * macs(arch_of(SPACE, smallest(SPACE), 2)), list[int]()
    target = Target(BOARD, api.limits_of(BOARD, ram="3k", flash="58k"))

    def price(archs: list) -> list:
        planned.extend(map(macs, archs))
        return [costs(arch, target) for arch in archs]

    is_trainable = lambda arch: macs(arch) <= most  # noqa: E731
    pairs = sample_fitting(SPACE, target, 2, 3, Sampling(0, 64, price, is_trainable), progress=lambda *_: None)
    assert max(planned) <= most and {macs(arch) for arch, _ in pairs} <= set(planned)


def test_the_first_network_is_the_largest_plain_network_that_fits() -> None:
    space, target = small_images((16,)), Target(BOARD, api.limits_of(BOARD, ram="12k", flash="40k"))
    found = first_network(space, target, 4)
    archs = [arch_of(space, plain(space, width, depth), 4) for width in space.widths for depth in (1, 2, 3)]
    fitting = [arch for arch in archs if costs(arch, target).fit]
    assert found is not None and 0 < len(fitting) < len(archs)
    assert found == (found[0], costs(found[0], target)) and found[0] in fitting and macs(found[0]) == max(map(macs, fitting))
    for group in found[0].groups:
        assert set(group.kernels) == {3} and set(group.expansions) == {1}, "depthwise separable convolutions"
    less = first_network(space, target, 4, lambda arch: macs(arch) < macs(found[0]))
    assert less is not None and macs(less[0]) < macs(found[0])
    assert first_network(space, Target(BOARD, api.limits_of(BOARD, ram="1k")), 4) is None


def test_the_first_network_of_signals_is_wide_rather_than_deep() -> None:
    space = sensors(256, 3)
    tight, loose = (Target(BOARD, api.limits_of(BOARD, *limits)) for limits in (("3k", "40k", 6), ("64k", "1M", None)))
    for family in families_of(space):
        found, free = (first_network(space, target, 5, family=family) for target in (tight, loose))
        assert found is not None and free is not None and found[1].fit
        for arch, _ in (found, free):
            assert {len(group.kernels) for group in arch.groups} == {1}
            assert {each for group in arch.groups for each in group.expansions} == {0 if family.full else 1}
        assert free[0].groups[0].width == free[0].stem == 48, "width 3 fits"
        sizes = {plain_network(space, size, 5, family) for size in plain_sizes(space) if size.depth == 1}
        assert found[0] in sizes and not any(costs(arch, tight).fit for arch in sizes if macs(arch) > macs(found[0]))
    firsts = [first_network(space, tight, 5, family=family)[0] for family in families_of(space)]  # type: ignore[index]
    assert any(2 * arch.stem == arch.groups[0].width for arch in firsts), "the first convolution may be narrower"


def test_a_first_network_that_does_not_fit_as_built_becomes_narrower() -> None:
    space, target = small_images((32,)), Target(BOARD, api.limits_of(BOARD, ram="20k", flash="96k"))
    tried, first = list[Arch](), first_network(space, target, 4)
    assert first is not None

    def built(arch: Arch, _: Target) -> Costs:
        tried.append(arch)
        return Costs(1, 2, 3, None, {} if len(tried) == 2 else {"ram": 1})

    found = first_network(space, target, 4, built=built)
    assert found is not None and tried == [first[0], found[0]], "no network is built that is not needed"
    assert found[1] == Costs(1, 2, 3, None, {}), "the costs as built"
    plain_ones = [arch_of(space, plain(space, width, depth), 4) for width in space.widths for depth in (1, 2, 3)]
    assert 0.75 * macs(first[0]) < macs(found[0]) < macs(first[0]) and found[0] not in plain_ones
    assert [len(group.kernels) for group in found[0].groups] == [len(group.kernels) for group in first[0].groups]
    assert first_network(space, target, 4, built=lambda *_: Costs(1, 2, 3, None, {"ram": 1})) is None


@pytest.mark.parametrize(
    "space", [sensors(64, 2), small_images((16,)), detectors((64, 64)), MOBILE], ids=lambda each: each.name
)
def test_the_first_network_of_each_family_has_its_convolutions_and_its_pooling(space: SearchSpace) -> None:
    target = Target(BOARD, api.limits_of(BOARD, ram="256k", flash="1M"))
    families = families_of(space)
    found = [first_network(space, target, 4, family=each) for each in families]
    archs = [pair[0] for pair in found if pair is not None]
    assert len(archs) == len(set(archs)) == len(families), "all fit, and no two are equal"
    assert len(families) == {"sensors": 7, "small_images": 4, "detectors": 1, "mobile": 2}[space.name]
    assert families[0].full == (space.name in ("sensors", "small_images")), "the first trains fast"
    for arch, family in zip(archs, families, strict=True):
        kernels = {each for group in arch.groups for each in group.kernels}
        expansions = {each for group in arch.groups for each in group.expansions}
        assert (expansions == {0}) is family.full and arch.pooling == family.pooling
        assert kernels <= {"short": {3}, "middle": {5}, "long": {max(group.kernels) for group in space.groups}}[family.kernels]
        assert len(arch.groups) == (family.groups or len(space.groups))
        assert family.groups is None or {len(group.kernels) for group in arch.groups} == {1}, "wide rather than deep"
        assert costs(arch, target).fit


def test_flat_networks_are_the_beginnings_of_the_plain_network() -> None:
    space = sensors(24, 2)
    target = Target(BOARD, api.limits_of(BOARD, ram="3k", flash="40k"), overhead=Overhead(500, 9000))
    found = list(flat_networks(space, target, 4))
    assert [len(arch.groups) for arch, _ in found] == [0, 1, 2, 3] and {arch.pooling for arch, _ in found} == {"none"}
    whole = arch_of(space, plain(space, 1.0, 1), 4)
    for arch, cost in found:
        assert (arch.stem, arch.groups) == (whole.stem, whole.groups[: len(arch.groups)])
        assert cost.fit and cost == costs(arch, target)
    less = list(flat_networks(space, target, 4, lambda arch: arch.stem < whole.stem))
    assert len(less) == 4 and all(arch.stem < whole.stem for arch, _ in less), "the next width"
    assert list(flat_networks(detectors((64, 64)), target, 4)) == []
    large = Target(BOARD, api.limits_of(BOARD, ram="60k", flash="200k"), overhead=Overhead(500, 9000))
    found = [len(list(flat_networks(small_images((side,)), large, 4))) for side in (16, 17)]
    assert found == [4, 0], "in a photograph an object lies anywhere"
    tight = Target(BOARD, api.limits_of(BOARD, ram="3k", flash="9500"), overhead=Overhead(500, 9000))
    assert len(list(flat_networks(space, tight, 4))) < 4, "a deep one has too many weights"


def test_fitted_networks_read_samples_of_few_values_and_must_fit() -> None:
    data, target = waves(), Target(BOARD, api.limits_of(BOARD, ram="3k", flash="40k"), overhead=Overhead(500, 9000))
    image = (1, 24, 2)
    archs = [linear(image, 2), nearest(image, 2, 256)]  # with 381 samples, as many as the larger class has, it does not fit
    assert fitted_networks(data, target) == [(arch, costs(arch, target)) for arch in archs]
    assert not costs(nearest(image, 2, 381), target).fit
    labels = data.part("train", "validation")[1]
    wide = Target(BOARD, api.limits_of(BOARD, ram="3k"), overhead=Overhead(500, 9000))
    assert [arch.stored for arch, _ in fitted_networks(data, wide)] == [0, max(labels.sum(), len(labels) - labels.sum())]
    assert fitted_networks(data, Target(BOARD, api.limits_of(BOARD, flash="8k"), overhead=Overhead(500, 9000))) == []
    assert fitted_networks(replace(data, kind="detection"), target) == []
    assert [arch.stored for arch, _ in fitted_networks(waves(2_000), wide)] == [0, candidates.MAX_STORED]
    large = replace(data, values=np.zeros((len(data.values), 32, 33, 1), np.int8))
    assert fitted_networks(large, target) == []
    assert {arch.image for arch, _ in fitted_networks(replace(large, kind="images"), target)} == {(32, 17, 1)}, (
        "as k-NN reads it"
    )


def test_networks_are_ranked_by_the_sum_of_their_ranks_in_macs_and_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Either of the two alone gives another order."""
    archs = [replace(arch_of(SPACE, smallest(SPACE), 2), stem=stem) for stem in (1, 2, 3)]
    for name, sizes in (("macs", {1: 3, 2: 1, 3: 2}), ("weights", {1: 1, 2: 2, 3: 3})):
        monkeypatch.setattr(candidates, name, lambda arch, sizes=sizes: sizes[arch.stem])
    assert candidates.ranked(archs) == [2, 0, 1]
