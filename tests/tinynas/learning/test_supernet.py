"""Networks extracted from a supernet compute the same as inside it, and an interrupted training resumes."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from cases.stripes import TINY, TINY_V3, StopError, stop_at, stripes

torch = pytest.importorskip("torch", reason="needs torch")

from tinynas.learning import train  # noqa: E402
from tinynas.learning.module import module_of  # noqa: E402
from tinynas.learning.supernet import Supernet, centre, fit_supernet, recalibrate, resized  # noqa: E402
from tinynas.learning.train import Recipe, accuracy, fit, thread_count  # noqa: E402
from tinynas.space import (  # noqa: E402
    MOBILE_1280,
    Choice,
    SearchSpace,
    arch_of,
    keywords,
    largest,
    mobilenet_v3,
    sample,
    sensors,
    small_images,
    smallest,
)
from tinynas.training_run import TrainingRun  # noqa: E402

MOBILE = replace(MOBILE_1280, sizes=((48, 48), (64, 64)), widths=(0.2, 0.3, 0.5))
V3 = mobilenet_v3(((48, 32), (64, 48)), by_group=True)
V3 = replace(V3, groups=tuple(replace(group, depths=group.depths[:2]) for group in V3.groups))  # with 40 M MACs it is slow
V3 = replace(V3, redistributable=True)
SPACES = (small_images((16, 24)), keywords(), keywords((49, 40)), sensors(40, 3), MOBILE, V3)


def supernet_of(space: SearchSpace) -> Supernet:
    """Return a supernet with weights as after training: norms are no identities."""
    supernet, rng = Supernet(space, 5, seed=1), torch.Generator().manual_seed(2)
    with torch.no_grad():
        for value in supernet.parameters():
            if value.ndim == 1:
                value.add_(0.2 * torch.randn(value.shape, generator=rng))
    return supernet


@pytest.mark.parametrize("space", SPACES, ids=lambda space: f"{space.name}-{space.sizes[0][1]}")
def test_an_extracted_network_computes_the_same_as_in_the_supernet(space: SearchSpace) -> None:
    supernet, rng = supernet_of(space), random.Random(3)
    choices = [smallest(space), *(sample(space, rng) for _ in range(6)), largest(space, width=min(space.widths))]
    for choice in choices:
        arch = arch_of(space, choice, 5)
        rows, columns, channels = arch.image
        x = torch.rand(2, channels, rows, columns, generator=torch.Generator().manual_seed(4)) * 2 - 1
        x = x.contiguous(memory_format=torch.channels_last)
        alone = supernet.extract(arch).to(memory_format=torch.channels_last).train()
        with torch.no_grad():
            part, whole = supernet(x, arch), alone(x)
        assert torch.equal(part, whole) and part.std() > 0, arch


def test_extracted_weights_are_the_first_channels_and_the_kernel_s_centre() -> None:
    supernet = supernet_of(TINY)
    arch = arch_of(TINY, smallest(TINY)._replace(blocks=(((3, 2),),)), 5)
    first = supernet.extract(arch)
    unit = supernet.units[1]["depthwise"]
    assert torch.equal(first[1].layers[1][0].weight, unit.weight[:16, :, 1:4, 1:4]) and unit.weight.shape == (24, 1, 5, 5)
    assert torch.equal(first[1].layers[0][0].weight, supernet.units[1]["expand"].weight[:16, :8])
    assert centre(torch.arange(25).reshape(1, 1, 5, 5), (1, 3)).flatten().tolist() == [11, 12, 13]
    assert len(first) == 4 and len(supernet.units) == 3, "one block of two"


def test_the_largest_network_is_unchanged_after_load_and_extract() -> None:
    supernet, module = Supernet(TINY, 5), module_of(arch_of(TINY, largest(TINY), 5), 7)
    supernet.load(module)
    assert all(
        torch.equal(a, b) for a, b in zip(supernet.extract(supernet.largest).parameters(), module.parameters(), strict=True)
    )


@pytest.mark.parametrize("space", [TINY, TINY_V3], ids=["plain", "squeezed"])
def test_sorting_channels_does_not_change_the_largest_network(space: SearchSpace) -> None:
    supernet, x = supernet_of(space).double(), torch.rand(4, 1, 8, 8, dtype=torch.float64)
    before = supernet(x)
    units = supernet.units[1]
    unsorted = units["project"].weight.abs().sum((0, 2, 3))
    supernet.sort()
    norms = units["project"].weight.abs().sum((0, 2, 3))
    assert torch.equal(norms, unsorted.sort(descending=True).values) and not torch.equal(norms, unsorted)
    assert (supernet(x) - before).abs().max() < 1e-12, "only the order in which a projection adds up differs"
    for excitation in supernet.excitations.values():
        inner = excitation.expand.weight.abs().sum((0, 2, 3))
        assert torch.equal(inner, inner.sort(descending=True).values)


def test_extracted_squeeze_and_excitation_has_the_first_channels() -> None:
    supernet = supernet_of(TINY_V3)
    arch = arch_of(TINY_V3, Choice((8, 8), 1.0, (((3, 2),),), (0.5,)), 5)
    alone, whole = supernet.extract(arch)[1].excitation, supernet.excitations["1"]
    assert (whole.reduce.weight.shape, alone.reduce.weight.shape) == ((16, 24, 1, 1), (8, 16, 1, 1))
    assert torch.equal(alone.reduce.weight, whole.reduce.weight[:8, :16]) and torch.equal(
        alone.reduce.bias, whole.reduce.bias[:8]
    )
    assert torch.equal(alone.expand.weight, whole.expand.weight[:16, :8])
    assert torch.equal(alone.expand.bias, whole.expand.bias[:16]) and alone.expand.bias.std() > 0


@pytest.mark.parametrize("space", [TINY, TINY_V3], ids=["plain", "squeezed"])
def test_training_a_supernet_trains_all_of_its_networks(space: SearchSpace) -> None:
    data, unseen = stripes(512, 0), stripes(200, 1)
    first = fit(module_of(arch_of(space, largest(space), 2)), *data, Recipe(2, batch=32))
    supernet = Supernet(space, 2)
    supernet.load(first)
    supernet.sort()
    fit_supernet(supernet, *data, Recipe(3, batch=32, rate=0.05))
    rng, rates = random.Random(0), list[float]()
    for _ in range(4):
        module = supernet.extract(arch_of(space, sample(space, rng, size=(8, 8)), 2))
        rates.append(accuracy(recalibrate(module, data[0]), *unseen))
        assert all(part.momentum == 0.1 for part in module.modules() if isinstance(part, torch.nn.BatchNorm2d))
    assert min(rates) > 0.9, rates


def test_recalibration_uses_the_statistics_of_the_samples() -> None:
    arch = arch_of(TINY, smallest(TINY), 2)
    values, _ = stripes(256, 0)
    module = recalibrate(recalibrate(module_of(arch), values[:64] // 2), values)
    stem = module[0].layers[0][0](torch.from_numpy(values).permute(0, 3, 1, 2).float() / 128)
    assert torch.allclose(module[0].layers[0][1].running_mean, stem.mean((0, 2, 3)), atol=1e-6), "all of the 256 samples"
    large = recalibrate(module_of(arch), values, batch=200)[0].layers[0][1].running_mean  # 200 of the 256 samples
    assert torch.allclose(large, stem.mean((0, 2, 3)), atol=0.01) and not torch.allclose(large, stem.mean((0, 2, 3)), atol=1e-6)
    again = recalibrate(module_of(arch), values)
    assert all(torch.equal(a, b) for a, b in zip(module.state_dict().values(), again.state_dict().values(), strict=True))


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.sweep)], ids=["one thread", "two threads"])
def test_an_interrupted_supernet_training_resumes_to_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(train, "SAVE_EVERY_S", 0.0)
    data, recipe = stripes(128, 0), Recipe(3, batch=32, rate=0.05, augmentation="images")

    with thread_count(count):
        whole = fit_supernet(Supernet(TINY, 2), *data, recipe, TrainingRun(5))
        with pytest.raises(StopError):
            fit_supernet(Supernet(TINY, 2), *data, recipe, TrainingRun(5, tmp_path / "state", progress=stop_at("", 2)))
        seen = list[int]()
        again = TrainingRun(5, tmp_path / "state", progress=lambda _, done, __: seen.append(done))
        other = Supernet(TINY, 2, seed=9)
        fit_supernet(other, *data, recipe, again)
    assert seen == [3], "not from the start"
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), other.parameters(), strict=True))


def test_samples_are_resized_to_the_image_of_a_network() -> None:
    arch = arch_of(MOBILE, sample(MOBILE, random.Random(0), size=(48, 48)), 2)
    x = torch.rand(1, 3, 96, 96)
    assert torch.equal(resized(x, arch), torch.nn.functional.avg_pool2d(x, 2)) and resized(x[..., :48, :48], arch).shape == (
        1,
        3,
        48,
        48,
    )
