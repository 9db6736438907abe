"""Whole transformer blocks, with norms, residual sums and an MLP, run by rows: neither scores nor the hidden map are whole."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

import torch
from cases.from_torch import trained
from torch import Tensor, nn
from torch.nn import functional

import tinyweave as tw
from tinyweave.planning import Plan

STEPS, CHANNELS, HEADS, WIDER = 48, 16, 4, 4


class Block(nn.Module):
    """A causal block written by hand: one dense layer for queries, keys and values, norms first, GELU."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(CHANNELS) for _ in range(2))
        self.inputs, self.output = nn.Linear(CHANNELS, 3 * CHANNELS), nn.Linear(CHANNELS, CHANNELS)
        self.up, self.down = nn.Linear(CHANNELS, WIDER * CHANNELS), nn.Linear(WIDER * CHANNELS, CHANNELS)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.inputs(self.norms[0](x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        heads = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.output(heads.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.norms[1](x))))


def encoder(*, norm_first: bool) -> nn.Module:
    how = {"batch_first": True, "norm_first": norm_first, "activation": "gelu"}
    return nn.TransformerEncoderLayer(CHANNELS, HEADS, WIDER * CHANNELS, **how)


def int8(path: Any, module: nn.Module | None = None) -> tw.Model:
    """Return the int8 form of a module, or of the model in a file."""
    samples = np.random.default_rng(0).standard_normal((8, 1, STEPS, CHANNELS)).astype(np.float32)
    loaded = tw.load(path) if module is None else tw.load(module, torch.zeros(1, STEPS, CHANNELS))
    return tw.quantize(loaded, samples, method="minmax").model


def whole(plan: Plan) -> set[str]:
    """Return the kinds of the ops whose outputs have a buffer that holds all of their rows."""
    held = {buffer.name: buffer.bytes for buffer in plan.buffers}
    return {
        op.kind for op in plan.graph.ops for output in plan.graph.outputs_of(op) if held.get(output.name, 0) >= output.bytes
    }


# whole maps of STEPS x CHANNELS in each block's plan: the input, the outputs of all heads, with norms first also the norm
BLOCKS = {
    "norm-first": (lambda: encoder(norm_first=True), 3, "stm32f412"),
    "norm-last": (lambda: encoder(norm_first=False), 2, "nrf5340"),
    "causal": (Block, 3, "nrf5340"),
}


@pytest.mark.litert
@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_runs_by_rows(name: str, litert: ModuleType, emulator: None) -> None:
    build, maps, device = BLOCKS[name]
    small = int8(None, trained(build()))
    plan = tw.plan(small, optimize="size")
    assert {"softmax", "gelu"} <= {op.kind for op in plan.graph.ops} and not {"softmax", "gelu"} & whole(plan)
    rows = 2 * STEPS + 3 * WIDER * CHANNELS
    assert plan.arena["sram"] <= STEPS * CHANNELS * (maps + 1 / HEADS) + rows < HEADS * STEPS**2
    assert tw.verify(small, device, planned=plan, samples=2).ok


@pytest.mark.filterwarnings("ignore")  # torch speaks of its other exporter
def test_a_block_from_onnx_has_the_arena_of_the_block_from_torch(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="needs onnx: pip install '.[onnx]'")
    module, file = trained(Block()), tmp_path / "block.onnx"
    torch.onnx.export(module, (torch.zeros(1, STEPS, CHANNELS),), str(file), dynamo=False, opset_version=17)
    ours, theirs = (tw.plan(small, optimize="size") for small in (int8(None, module), int8(file)))
    assert theirs.arena == ours.arena and not {"softmax", "gelu"} & whole(theirs)
