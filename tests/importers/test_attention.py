"""Attention from PyTorch equals torch in float, and LiteRT's bytes in int8, also on an emulated core."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

import torch
from cases.from_torch import distances, trained
from torch import Tensor, nn
from torch.nn import functional

import tinyweave as tw
from tinyweave import ops
from tinyweave.importers.torch import from_module
from tinyweave.ir import CompileError
from tinyweave.simulate import compare

STEPS, FEATURES = 6, 16


class Attention(nn.Module):
    """An attention block. 0 heads: one head without an axis; fused: torch's scaled_dot_product_attention."""

    def __init__(self, heads: int, fused: bool):
        super().__init__()
        torch.manual_seed(heads)
        self.heads, self.fused = heads, fused
        self.q, self.k, self.v, self.out = (nn.Linear(FEATURES, FEATURES) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        n, t, f = x.shape
        q, k, v = self.q(x), self.k(x), self.v(x)
        if self.heads:
            q, k, v = (m.view(n, t, self.heads, f // self.heads).transpose(1, 2) for m in (q, k, v))
        if self.fused:
            y = functional.scaled_dot_product_attention(q, k, v)
        else:
            scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
            y = torch.softmax(scores, -1) @ v
        if self.heads:
            y = y.transpose(1, 2).reshape(n, t, f)
        return x + self.out(y)


@pytest.mark.litert
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("heads", [0, 1, 4])
def test_attention_is_imported_quantised_and_deployed(
    heads: int, fused: bool, litert: ModuleType, emulator: None, tmp_path: Path
) -> None:
    module, example = Attention(heads, fused).eval(), torch.randn(1, STEPS, FEATURES)
    graph, ours, theirs = distances(module, example, litert)
    assert ours < 1e-4 and theirs < 1e-4
    assert Counter(op.kind for op in graph.ops)["batch_matmul"] == 2 * max(heads, 1)
    samples = np.random.default_rng(0).standard_normal((16, 1, STEPS, FEATURES)).astype(np.float32)
    small = tw.quantize(tw.load(module, example), samples).model
    assert {tensor.dtype for tensor in small.graph.tensors.values()} <= {"int8", "int32"}
    assert tw.verify(small, "stm32f412", samples=2).ok


@pytest.mark.litert
@pytest.mark.parametrize("first", [False, True])
def test_a_transformer_encoder_layer_is_imported_quantised_and_deployed(
    first: bool, litert: ModuleType, emulator: None
) -> None:
    """The layer is torch's, with norms before or after attention; int8 equals LiteRT's bytes and has more than 30 dB."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(FEATURES, 2, 24, batch_first=True, norm_first=first, activation="gelu")
    module, example = trained(layer), torch.randn(1, STEPS, FEATURES)
    graph, ours, theirs = distances(module, example, litert)
    assert ours < 1e-4 and theirs < 1e-4
    assert Counter(op.kind for op in graph.ops)["rsqrt"] == 2
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((32, 1, STEPS, FEATURES)) * rng.uniform(0.5, 2, (32, 1, STEPS, 1))
    result = tw.quantize(tw.load(module, example), samples.astype(np.float32))
    small = result.model
    assert result.fidelity.sqnr_db > 30
    assert {tensor.dtype for tensor in small.graph.tensors.values()} <= {"int8", "int32"}
    inputs = compare.samples(small.graph, 8, 0)
    for arrays, run in zip(inputs, litert.run(small.file, inputs), strict=True):
        (found,) = ops.run(small.graph, dict(zip(small.graph.inputs, arrays, strict=True))).values()
        assert found.tobytes() == run.outputs[0].tobytes()
    assert tw.verify(small, "stm32f412", samples=2).ok


class SelfAttention(nn.Module):
    def __init__(self, channels: int, heads: int):
        super().__init__()
        torch.manual_seed(heads)
        self.inner = nn.MultiheadAttention(channels, heads, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, x, x, need_weights=False)[0]


@pytest.mark.litert
@pytest.mark.parametrize("heads", [1, 4])
def test_the_score_matrix_is_never_whole(heads: int, litert: ModuleType, emulator: None) -> None:
    """The arena has the input, keys and values of one head, outputs of other heads, and a few rows."""
    steps, channels = 96, 8
    samples = np.random.default_rng(0).standard_normal((8, 1, steps, channels)).astype(np.float32)
    small = tw.quantize(tw.load(SelfAttention(channels, heads).eval(), torch.zeros(1, steps, channels)), samples).model
    plan = tw.plan(small, optimize="size")
    rows = 3 * steps + 4 * channels
    assert plan.arena["sram"] <= steps * channels * (2 + 1 / heads) + rows < heads * steps**2
    assert tw.verify(small, "stm32f412", planned=plan, samples=2).ok


def test_the_layer_norm_of_a_long_row_has_34_db_in_int8() -> None:
    """The factor 1 / 216 of the mean of squares must not cost steps of int8."""
    norm = nn.LayerNorm((3, 8, 9))
    samples = np.random.default_rng(0).standard_normal((16, 1, 3, 8, 9)).astype(np.float32)
    assert tw.quantize(tw.load(norm, torch.zeros(1, 3, 8, 9)), samples).fidelity.sqnr_db > 34


class Masked(nn.Module):
    """Attention in which a place sees only the places before it, or those that the mask allows."""

    def __init__(self, mask: Tensor | None):
        super().__init__()
        torch.manual_seed(0)
        self.mask, self.q, self.k, self.v = mask, *(nn.Linear(FEATURES, FEATURES) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (each(x).unflatten(-1, (4, -1)).transpose(1, 2) for each in (self.q, self.k, self.v))
        return functional.scaled_dot_product_attention(q, k, v, self.mask, is_causal=self.mask is None).flatten(2)


SEEN = torch.ones(STEPS, STEPS, dtype=torch.bool).tril()


@pytest.mark.litert
@pytest.mark.parametrize("mask", [None, SEEN, torch.where(SEEN, 0.5, -1e9)], ids=["causal", "bools", "numbers"])
def test_masked_attention_goes_the_whole_way(mask: Tensor | None, litert: ModuleType, emulator: None) -> None:
    """Masked scores do not widen the range of the others: int8 attention keeps more than 30 dB."""
    module, example = trained(Masked(mask)), torch.randn(1, STEPS, FEATURES)
    _, ours, theirs = distances(module, example, litert, transposes=None)
    assert ours < 1e-5 and theirs < 1e-5
    samples = np.random.default_rng(0).standard_normal((16, 1, STEPS, FEATURES)).astype(np.float32)
    done = tw.quantize(tw.load(module, example), samples)
    assert done.fidelity.sqnr_db > 30
    assert tw.verify(done.model, "stm32f412", samples=2).ok


def test_a_mask_that_the_network_computes_and_grouped_heads_are_refused() -> None:
    class Attending(nn.Module):
        def __init__(self, grouped: bool):
            super().__init__()
            self.grouped = grouped

        def forward(self, x: Tensor) -> Tensor:
            if self.grouped:
                return functional.scaled_dot_product_attention(x, x[:, :1], x[:, :1], enable_gqa=True)
            return functional.scaled_dot_product_attention(x, x, x, x[:, :, :STEPS])

    with pytest.raises(CompileError, match="its mask is computed by the network; only constant masks are supported"):
        from_module(Attending(False), torch.randn(1, STEPS, STEPS))
    with pytest.raises(CompileError, match="it has dropout or grouped heads"):
        from_module(Attending(True), torch.randn(1, 2, STEPS, FEATURES))
