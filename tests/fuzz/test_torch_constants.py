"""Random modules that make constants, view them, and write to the views, compute what torch does."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from cases.from_torch import distances  # noqa: E402
from fuzz.seeds import parametrize  # noqa: E402

USUAL, IN_SWEEPS, BATCH = 20, 1_500, 50
MOST, CLOSE = 1e6, 1e-4  # size of an output; error in ranges of the outputs
VIEWS: list[Callable[[torch.Tensor, random.Random], torch.Tensor]] = [
    lambda t, rng: t.select(rng.randrange(t.ndim), 0),
    lambda t, rng: t.select(-1, -1),
    lambda t, rng: t[1:] if t.shape[0] > 1 else t,
    lambda t, rng: t[..., ::2],
    lambda t, rng: t.transpose(0, -1),
    lambda t, rng: t.swapaxes(0, -1),
    lambda t, rng: t.movedim(0, -1),
    lambda t, rng: t.permute(*reversed(range(t.ndim))),
    lambda t, rng: t.T if t.ndim == 2 else t,
    lambda t, rng: t.unsqueeze(rng.randint(0, t.ndim)),
    lambda t, rng: t.squeeze(),
    lambda t, rng: t.squeeze().flatten(),
    lambda t, rng: t.chunk(2, 0)[0],
    lambda t, rng: t.split(1, -1)[-1],
    lambda t, rng: t.unbind(0)[-1],
    lambda t, rng: t.narrow(0, 0, 1),
    lambda t, rng: t.diagonal() if t.ndim == 2 else t,
    lambda t, rng: t.unflatten(0, (1, -1)),
    lambda t, rng: t.reshape(-1),
    lambda t, rng: t.expand(2, *t.shape),
    lambda t, rng: t.contiguous(),
    lambda t, rng: t.detach(),
    lambda t, rng: t.float(),
    # not views
    lambda t, rng: t.clone(),
    lambda t, rng: t.flip(0) + 1,
    lambda t, rng: t.relu(),
]
WRITES: list[Callable[[torch.Tensor], object]] = [
    lambda t: t.add_(1),
    lambda t: t.add_(t.clone()),
    lambda t: t.sub_(0.25),
    lambda t: t.mul_(3),
    lambda t: t.neg_(),
    lambda t: t.zero_(),
    lambda t: t.fill_(0.5),
    lambda t: t.clamp_(min=-0.3),
    lambda t: t.masked_fill_(t > 0.2, -1.0),
    lambda t: t.copy_(t.clone() * 2),
    lambda t: t.__setitem__(..., 0.7),
    lambda t: t.__setitem__(-1 if t.ndim else ..., 2.5),
    lambda t: t.__setitem__(slice(1) if t.ndim else ..., torch.tensor(1.5)),
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize(metafunc, "seeds", USUAL, IN_SWEEPS, BATCH)


class Constants(torch.nn.Module):
    """Adds numbers to its input that are computed from a buffer, a parameter and new constants."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed
        self.register_buffer("buffer", torch.linspace(-1, 2, 12).reshape(3, 4))
        self.weight = torch.nn.Parameter(torch.linspace(2, -1, 6).reshape(2, 3), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rng = random.Random(self.seed)
        parts = [self.buffer.clone(), torch.linspace(-2, 3, 12).reshape(3, 4), torch.zeros(2, 3), self.weight * 1]
        for _ in range(rng.randint(4, 9)):
            part = rng.choice(parts)
            if rng.random() < 0.6:
                parts.append(rng.choice(VIEWS if part.ndim else VIEWS[-5:])(part, rng))
            elif part.numel() and 0 not in part.stride():
                rng.choice(WRITES)(part)
        return x + torch.stack([part.sum() * (place + 1) for place, part in enumerate(parts)])


def test_random_writes_to_constants_reach_all_that_reads_them(seeds: range) -> None:
    compared = 0
    for seed in seeds:
        module, x = Constants(seed).eval(), torch.zeros(1, 1)
        with torch.no_grad():
            expected = module(x)
        if expected.abs().max() < MOST and np.ptp(expected.numpy()) > 1:
            compared += 1
            assert distances(module, x)[1] < CLOSE, seed
    assert compared > len(seeds) / 2
