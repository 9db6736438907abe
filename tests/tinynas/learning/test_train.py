"""Training improves the accuracy, is determined by the seed, and resumes after an interrupt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.stripes import StopError, stop_at, stripes

torch = pytest.importorskip("torch", reason="needs torch")

from tinynas.arch import Arch, Group  # noqa: E402
from tinynas.learning import train  # noqa: E402
from tinynas.learning.augment import AUGMENT, pasted, shifted  # noqa: E402
from tinynas.learning.module import module_of  # noqa: E402
from tinynas.learning.train import Recipe, accuracy, fit, rate_at, scores  # noqa: E402
from tinynas.training_run import TrainingRun  # noqa: E402

ARCH = Arch((8, 8, 1), 8, (Group(8, 2, (3,), (2,)),), classes=2)


def weights_of(module: torch.nn.Module) -> torch.Tensor:
    return torch.cat([value.flatten().float() for value in module.state_dict().values()])


@pytest.mark.parametrize("optimiser", [{}, {"adam": True, "rate": train.ADAM_RATE, "weight_decay": train.ADAM_DECAY}])
def test_training_reaches_95_percent_accuracy_on_stripes(optimiser: dict[str, Any]) -> None:
    module = fit(module_of(ARCH), *stripes(512, 0), Recipe(6, batch=32, augmentation="images", **optimiser))
    values, labels = stripes(300, 1)
    assert accuracy(module, values, labels) > 0.95 and accuracy(module_of(ARCH), values, labels) < 0.7
    assert scores(module, values).shape == (300, 2)


def test_a_dense_layer_with_many_inputs_converges() -> None:
    rng = np.random.default_rng(0)
    image, labels = (32, 32, 3), rng.integers(0, 10, 512)
    background, patterns = rng.integers(-50, 50, image), rng.integers(-60, 60, (10, *image))
    noise = rng.integers(-60, 60, (len(labels), *image))
    values = np.clip(background + patterns[labels] + noise, -128, 127).astype(np.int8)
    module = module_of(Arch(image, 8, (), classes=10, stem_stride=(1, 1), pooling="none"))  # the dense layer has 8,192 inputs
    assert accuracy(fit(module, values, labels, Recipe(3)), values, labels) > 0.95


@pytest.mark.parametrize("adam", [False, True])
def test_an_interrupted_training_resumes_to_the_same_weights(
    adam: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "SAVE_EVERY_S", 0.0)
    recipe, data = Recipe(4, 32, 3e-3 if adam else 0.2, adam, augmentation="images", cutmix=0.5), stripes(128, 0)
    whole = fit(module_of(ARCH), *data, recipe, TrainingRun(5))

    with pytest.raises(StopError):
        fit(module_of(ARCH), *data, recipe, TrainingRun(5, checkpoint=tmp_path / "state", progress=stop_at("", 2)))
    seen = list[int]()
    again = TrainingRun(5, checkpoint=tmp_path / "state", progress=lambda _, done, __: seen.append(done))
    resumed = fit(module_of(ARCH, 99), *data, recipe, again)
    assert seen == [3, 4], "not from the start"
    assert torch.equal(weights_of(whole), weights_of(resumed))
    assert not torch.equal(weights_of(whole), weights_of(fit(module_of(ARCH), *data, recipe, TrainingRun(6))))
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_only_long_trainings_on_a_gpu_are_compiled() -> None:
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    assert train.pays_to_compile(gpu, train.COMPILED_STEPS) and not train.pays_to_compile(gpu, train.COMPILED_STEPS - 1)
    assert not train.pays_to_compile(cpu, train.COMPILED_STEPS)


def test_the_learning_rate_rises_during_warm_up_and_then_falls() -> None:
    recipe = Recipe(10, batch=256, warm_up=0.1)
    rates = [rate_at(step, 100, recipe) for step in range(101)]
    assert max(rates) == pytest.approx(1) and rates.index(max(rates)) == 10 and rates[-1] == pytest.approx(0)
    assert rates[:11] == sorted(rates[:11]) and rates[10:] == sorted(rates[10:], reverse=True)
    assert rate_at(50, 100, Recipe(10, batch=128, warm_up=0.1)) == pytest.approx(rates[50] / 2)
    assert rate_at(50, 100, Recipe(10, batch=128, warm_up=0.1, adam=True)) == pytest.approx(rates[50])


@pytest.mark.parametrize("kind", [name for name in AUGMENT if name != "none"])
def test_augmented_samples_stay_in_range_and_follow_from_the_seed(kind: str) -> None:
    samples = torch.rand(16, 3, 12, 12, generator=torch.Generator().manual_seed(0)) * 2 - 1
    first, again, other = (AUGMENT[kind](samples, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other) and first.shape == samples.shape
    assert first.abs().max() <= 1 and not torch.equal(first, samples)


def test_shifted_samples_move_by_whole_rows_and_columns() -> None:
    sample = torch.arange(12.0).reshape(1, 1, 3, 4)
    moved = shifted(sample, torch.tensor([1]), torch.tensor([-2]), -1.0)
    assert moved[0, 0].tolist() == [[-1, -1, -1, -1], [2, 3, -1, -1], [6, 7, -1, -1]]


def test_a_rectangle_of_another_image_is_pasted_into_each_image() -> None:
    samples = torch.arange(24.0)[:, None, None, None].expand(24, 2, 10, 30)  # each image has one value
    shares = list[float]()
    for seed in range(40):
        given = samples.clone()
        mixed, order, own = pasted(given, torch.Generator().manual_seed(seed))
        kept = (mixed == samples).all(1)
        assert order.sort().values.tolist() == list(range(24)) and torch.equal(given, samples), "the argument is not changed"
        moved = order != torch.arange(24)
        assert torch.equal(torch.where(kept[:, None], samples, samples[order]), mixed)
        assert kept[moved].float().mean((1, 2)).tolist() == pytest.approx([own] * int(moved.sum()))
        rows, columns = (~kept[moved][0]).any(1).nonzero().flatten(), (~kept[moved][0]).any(0).nonzero().flatten()
        assert (~kept[moved][0]).sum() == len(rows) * len(columns), "a rectangle"
        shares.append(own)
    assert min(shares) < 0.3 and max(shares) > 0.9


@pytest.mark.parametrize("cutmix", [0.0, 1.0])
def test_the_loss_of_a_mixed_image_is_that_of_both_classes_by_area(cutmix: float) -> None:
    logits, samples = torch.tensor([[2.0, -1.0, 0.0], [0.0, 1.0, 3.0]]), torch.rand(2, 1, 8, 8)
    targets, recipe = torch.tensor([0, 1]), Recipe(1, cutmix=cutmix, smoothing=0.1)
    losses = train._losses(lambda x: logits, recipe, torch.Generator().manual_seed(1))
    (loss,) = losses(samples, targets, 0)
    each = -torch.log_softmax(logits, 1)
    wanted = torch.eye(3)[targets]
    if cutmix:
        generator = torch.Generator().manual_seed(1)
        torch.rand((), generator=generator)  # decides whether the step mixes
        _, order, own = pasted(samples, generator)
        assert order.tolist() == [1, 0] and 0.05 < own < 0.95
        wanted = own * wanted + (1 - own) * wanted[order]
    assert float(loss) == pytest.approx(float((each * (0.9 * wanted + 0.1 / 3)).sum(1).mean()))


def test_augmented_silence_stays_silent() -> None:
    silence = torch.full((4, 1, 20, 10), -1.0)
    assert torch.equal(AUGMENT["sounds"](silence, torch.Generator().manual_seed(3)), silence)


def test_a_state_is_written_atomically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train.save({"epoch": 1}, tmp_path / "state")
    monkeypatch.setattr(torch, "save", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        train.save({"epoch": 2}, tmp_path / "state")
    assert torch.load(tmp_path / "state", weights_only=True) == {"epoch": 1}
