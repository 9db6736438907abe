"""Random PyTorch networks under construction: a chain of layers, to which random ones are added that fit the current map."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

Layer = Callable[[random.Random, "Network", list[int]], Callable[[Tensor], Any] | None]


class Network(nn.Module):
    """A chain of layers, some of which also read earlier maps."""

    def __init__(self, shape: Sequence[int]):
        super().__init__()
        self.parts, self.steps, self.shapes = nn.ModuleList(), [], [list(shape)]
        self.maps: list[Tensor] = []
        self.first: nn.Module | None = None  # makes the first map of tokens

    def use(self, part: nn.Module) -> nn.Module:
        self.parts.append(part)
        return part

    def forward(self, x: Tensor) -> Any:
        self.maps = [x if self.first is None else self.first(x).transpose(1, 2)]
        for step in self.steps:
            self.maps.append(step(self.maps[-1]))
        found, self.maps = self.maps[-1], []
        return found


def grow(rng: random.Random, made: Network, example: Tensor, layers: Sequence[Layer]) -> None:
    """Add a random layer that fits; none if twenty tries fail."""
    for _ in range(20):
        count = len(made.parts)
        step = rng.choice(layers)(rng, made, made.shapes[-1])
        if step is None:
            continue
        made.steps.append(step)
        with torch.no_grad():
            out = made.eval()(example)
        if (
            isinstance(out, Tensor)
            and out.numel() > 0
            and max(out.shape) <= 400
            and (not out.is_floating_point() or 1e-3 * out.abs().max() < out.max() - out.min() < 1e4)
        ):
            made.shapes.append(list(out.shape))
            return
        made.steps.pop()
        del made.parts[count:]
