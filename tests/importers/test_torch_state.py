"""Buffers that a PyTorch module changes become states of the network, which keep their values from call to call."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from cases.from_torch import channels_last  # noqa: E402
from torch import nn  # noqa: E402

import tinyweave as tw  # noqa: E402
from tinyweave import ops  # noqa: E402
from tinyweave.importers.torch import from_module  # noqa: E402
from tinyweave.ir import CompileError  # noqa: E402
from tinyweave.ops.state import initial_state  # noqa: E402

CALLS = 7
CLOSE = 1e-5


class Copied(nn.Module):
    """A convolution along time that keeps the last steps of its input."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(3, 4, 5)
        self.register_buffer("kept", torch.randn(1, 3, 4))

    def forward(self, x: Any) -> Any:
        steps = torch.cat([self.kept, x], 2)
        self.kept.copy_(steps[:, :, -4:])
        return self.convolution(steps)


class Assigned(Copied):
    """The same convolution, with a new buffer at each call."""

    def forward(self, x: Any) -> Any:
        steps = torch.cat([self.kept, x], 2)
        self.kept = steps[:, :, -4:]
        return self.convolution(steps)


class Shifted(Copied):
    """The same convolution for one step at a time, with a buffer that is changed through its slices."""

    def forward(self, x: Any) -> Any:
        y = self.convolution(torch.cat([self.kept, x[:, :, :1]], 2))
        self.kept[:, :, :-1] = self.kept[:, :, 1:].clone()
        self.kept[:, :, -1] = x[:, :, 0]
        return y


class Averaged(nn.Module):
    """A moving average of the pixels of a map, and a second state that is only read by its own update."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(2, 3, 3, padding=1)
        self.register_buffer("mean", torch.zeros(1, 3, 4, 5))
        self.register_buffer("largest", torch.zeros(1, 3, 1, 1))

    def forward(self, x: Any) -> Any:
        y = self.convolution(x).relu()
        self.mean.mul_(0.75).add_(y, alpha=0.25)
        self.largest.copy_(torch.maximum(self.largest, y.amax((2, 3), keepdim=True)))
        return self.mean * 2


class Cached(nn.Module):
    """Attention of one new step to the steps in a cache of keys and a cache of values, which the module shifts."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.query, self.key, self.value, self.out = (nn.Linear(8, 8) for _ in range(4))
        self.register_buffer("keys", torch.randn(1, 5, 8))
        self.register_buffer("values", torch.randn(1, 5, 8))

    def shifted(self, cache: Any, new: Any) -> Any:
        steps = torch.cat([cache[:, 1:], new], 1)
        cache.copy_(steps)
        return steps

    def forward(self, x: Any) -> Any:
        y = self.norm(x)
        keys, values = self.shifted(self.keys, self.key(y)), self.shifted(self.values, self.value(y))
        q, k, v = (m.unflatten(-1, (2, 4)).transpose(1, 2) for m in (self.query(y), keys, values))
        heads = nn.functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(heads.transpose(1, 2).flatten(2))


class CachedHeads(Cached):
    """The same attention with a cache [1, heads, steps, channels] that is rolled, and its last step overwritten."""

    def __init__(self) -> None:
        super().__init__()
        self.keys, self.values = torch.randn(1, 2, 5, 4), torch.randn(1, 2, 5, 4)

    def rolled(self, cache: Any, new: Any) -> Any:
        steps = torch.cat([cache.roll(-1, 2)[:, :, :-1], new], 2)
        cache.copy_(steps)
        return steps

    def forward(self, x: Any) -> Any:
        q, k, v = (each(self.norm(x)).unflatten(-1, (2, 4)).transpose(1, 2) for each in (self.query, self.key, self.value))
        weights = torch.softmax(q @ self.rolled(self.keys, k).transpose(2, 3) / 2, -1)
        return x + self.out((weights @ self.rolled(self.values, v)).transpose(1, 2).flatten(2))


class CachedSteps(Cached):
    """Attention of two new steps at each call to the steps in a cache of inputs, with torch's own attention and a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        del self.values
        self.keys = torch.randn(1, 6, 8)

    def forward(self, x: Any) -> Any:
        steps = torch.cat([self.keys[:, 2:], x], 1)
        self.keys[:] = steps
        hidden = torch.ones(2, 6, dtype=torch.bool).triu(5)
        return x + self.attention(x, steps, steps, attn_mask=hidden, need_weights=False)[0]


MODULES: dict[str, tuple[type[nn.Module], tuple[int, ...]]] = {
    "copied": (Copied, (1, 3, 2)),
    "assigned": (Assigned, (1, 3, 2)),
    "shifted": (Shifted, (1, 3, 2)),
    "averaged": (Averaged, (1, 2, 4, 5)),
    "cached": (Cached, (1, 1, 8)),
    "cached heads": (CachedHeads, (1, 1, 8)),
    "cached steps": (CachedSteps, (1, 2, 8)),
}


def calls(shape: tuple[int, ...], count: int = CALLS) -> list[Any]:
    return list(torch.randn(count, *shape, generator=torch.Generator().manual_seed(1)))


@pytest.mark.parametrize("case", MODULES)
def test_each_call_computes_what_torch_does(case: str) -> None:
    kind, shape = MODULES[case]
    torch.manual_seed(0)
    module = kind().eval()
    given = calls(shape)
    graph = from_module(module, given[0])
    state = initial_state(graph)
    assert len(state) == len(list(module.buffers()))
    for x in given:
        (name,) = graph.inputs
        (y,) = ops.run(graph, {name: channels_last(x, graph.tensors[name].shape)}, state=state).values()
        with torch.no_grad():
            assert np.abs(y - channels_last(module(x), y.shape)).max() < CLOSE


@pytest.mark.litert
@pytest.mark.parametrize("case", MODULES)
def test_the_int8_network_keeps_its_states(case: str, litert: ModuleType, emulator: None) -> None:
    """The samples of calibration are calls in a row."""
    kind, shape = MODULES[case]
    torch.manual_seed(0)
    loaded = tw.load(kind(), torch.zeros(shape))
    done = tw.quantize(loaded, torch.stack(calls(shape, 40)).numpy(), method="minmax")
    assert done.fidelity.sqnr_db > 25
    verification = tw.verify(done.model, "stm32f412", samples=12)
    assert verification.ok and verification.reference.startswith("LiteRT")


def test_a_buffer_of_integers_is_refused() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(1, dtype=torch.int64))

        def forward(self, x: Any) -> Any:
            self.count.add_(1)
            return x * 2

    with pytest.raises(CompileError) as error:
        from_module(Counting(), torch.zeros(1, 3))
    assert str(error.value) == (
        "tensor 'count': is a buffer of int64 that the module changes; "
        "call eval() before the export; only float32 is kept from call to call"
    )
