"""Arenas of transformer layers: score matrices whole or by rows, and TFLite Micro's.

In: nothing; weights and samples are random. Out: a row per layer and number of tokens T, in bytes: TFLite Micro's arena
(--tflite-micro; with ReLU, because it has no GELU), the smallest plan with whole score matrices, and the smallest plan. Also
the cycles of the smallest plan on a Cortex-M4 relative to the fastest plan, as estimated, and the CPU seconds of planning.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

sys.path.append(str(Path(__file__).parents[1]))
import one_line  # noqa: F401

# isort: split
import numpy as np
import torch
from other_engines import tflite_micro_arena
from torch import Tensor, nn

import tinyweave as tw
from tinyweave import passes
from tinyweave.passes.attention.attention_rows import attention_rows
from tinyweave.planning import Request, front
from tinyweave.planning.kernels.cycles import cycles_to_compare

CHANNELS, HEADS, CORE = 32, 4, "cortex-m4"


class Attention(nn.Module):
    """Multi-head attention alone."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(CHANNELS, HEADS, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, x, x, need_weights=False)[0]


def layer(name: str, activation: str) -> nn.Module:
    """Return attention alone, or an encoder layer whose norms are last or first, with random weights."""
    torch.manual_seed(0)
    if name == "attention":
        return Attention().eval()
    how = {"batch_first": True, "norm_first": name == "norms first", "activation": activation}
    return nn.TransformerEncoderLayer(CHANNELS, HEADS, 4 * CHANNELS, 0.0, **how).eval()


def int8(module: nn.Module, tokens: int) -> tw.Model:
    """Return the int8 form of a module that takes `tokens` tokens of CHANNELS numbers."""
    samples = np.random.default_rng(0).standard_normal((8, 1, tokens, CHANNELS)).astype(np.float32)
    return tw.quantize(tw.load(module, torch.zeros(1, tokens, CHANNELS)), samples, method="minmax").model


def row(name: str, tokens: int, python: str | None) -> str:
    """Return a row of the table. `python` is the Python that has TFLite Micro, or None."""
    theirs = "not measured"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layer.tflite"
        path.write_bytes(int8(layer(name, "relu"), tokens).file)
        if python:
            theirs = f"{tflite_micro_arena(path, python):,}"
        path.write_bytes(int8(layer(name, "gelu"), tokens).file)
        with patch.object(passes, "PASSES", [each for each in passes.PASSES if each is not attention_rows]):
            whole = tw.plan(tw.load(path), optimize="size").arena["sram"]
        model = tw.load(path)
    begun = time.process_time()
    least = tw.plan(model, optimize="size").arena["sram"]
    seconds = time.process_time() - begun
    plans = front(model.graph, Request(core=CORE))
    slower = cycles_to_compare(plans[-1], CORE) / cycles_to_compare(plans[0], CORE)
    return f"| {name} | {tokens} | {theirs} | {whole:,} | {least:,} | {slower:.3f} | {seconds:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", default="64,128,256", help="numbers of tokens, with commas")
    parser.add_argument("--tflite-micro", metavar="PYTHON", help="a Python that has PyPI's tflite-micro")
    options = parser.parse_args()
    print("| layer | T | TFLite Micro (64-bit) | whole | by rows | cycles | seconds |\n|---|---:|---:|---:|---:|---:|---:|")
    for name in ("attention", "norms last", "norms first"):
        for tokens in map(int, options.tokens.split(",")):
            print(row(name, tokens, options.tflite_micro), flush=True)


if __name__ == "__main__":
    main()
