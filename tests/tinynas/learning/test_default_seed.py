"""The Zen-score draws its noise with seed 0 by default."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from torch import nn  # noqa: E402

from tinynas.learning.module import Mean  # noqa: E402
from tinynas.learning.zero_cost import zen  # noqa: E402


def test_the_default_seed_of_the_zen_score_is_0() -> None:
    module = nn.Sequential(nn.Conv2d(2, 3, 1, bias=False), nn.BatchNorm2d(3), nn.ReLU(), Mean(), nn.Linear(3, 2))
    samples = torch.zeros(16, 2, 1, 1)
    assert zen(module, samples) == zen(module, samples, seed=0) != zen(module, samples, seed=1)
