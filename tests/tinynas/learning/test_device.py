"""Training of a module that is not in the CPU's memory. Torch's meta device, which has no values, replaces a GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tinynas.halving import AUGMENTATIONS  # noqa: E402
from tinynas.learning import detection, supernet, train  # noqa: E402
from tinynas.learning.module import module_of  # noqa: E402
from tinynas.space import SearchSpace, arch_of, keywords, sensors, small_images, smallest  # noqa: E402

ELSEWHERE, CLASSES = torch.device("meta"), 4
SPACES: dict[str, Callable[[], SearchSpace]] = {
    "images": small_images,
    "sounds": partial(keywords, (49, 10)),
    "sensors": partial(sensors, 24, 2),
}


@pytest.fixture(autouse=True)
def on_meta_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train on the meta device, without mixed precision, which needs a GPU."""
    monkeypatch.setattr(train, "device", lambda: ELSEWHERE)
    for room in (train, supernet):
        monkeypatch.setattr(room, "mixed", lambda samples: contextlib.nullcontext())


def test_the_meta_device_refuses_tensors_of_the_cpu() -> None:
    with pytest.raises(RuntimeError, match="not on the expected device"):
        torch.ones(3) + torch.ones(3, device=ELSEWHERE)


@pytest.mark.parametrize("kind", SPACES)
def test_samples_and_labels_are_moved_to_the_device_of_the_module(kind: str) -> None:
    space, rng = SPACES[kind](), np.random.default_rng(0)
    arch = arch_of(space, smallest(space), CLASSES)
    values, labels = rng.integers(-128, 128, (70, *arch.image)).astype(np.int8), rng.integers(0, CLASSES, 70)
    recipe = train.Recipe(2, batch=32, augmentation=AUGMENTATIONS[kind][0])
    module = train.fit(module_of(arch), values, labels, recipe)
    whole = supernet.fit_supernet(supernet.Supernet(space, CLASSES), values, labels, recipe)
    assert {p.device.type for net in (module, whole) for p in net.parameters()} == {"meta"}


@pytest.mark.parametrize("boxes", [0, 5])
def test_augmented_boxes_stay_on_the_device_of_the_samples(boxes: int) -> None:
    """Only shapes are checked, because the assignment of boxes to cells depends on values."""
    x, labels = torch.zeros(4, 3, 32, 32, device=ELSEWHERE), torch.zeros(4, boxes, 6, device=ELSEWHERE)
    image, moved = detection.augment(x, labels, torch.Generator().manual_seed(0))
    assert image.device == moved.device == ELSEWHERE and moved.shape == labels.shape
