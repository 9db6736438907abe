"""Streaming transformers: RAM and instructions of a call that takes one new frame, beside calls that take the whole window.

In: nothing; weights and samples are random. Out: a row per number of encoder layers and frames W that attention sees. The
window has T frames: all frames on which one new row of the output depends. Bytes of arenas: TFLite Micro's (--tflite-micro;
with ReLU, because it has no GELU), the smallest plan with whole score matrices, the smallest plan, and the smallest plan with
--stream-time 1, of which state. Then instructions on an emulated Cortex-M4 of the default plans for the whole window and for
one frame. All output bytes of the calls are compared with the whole window's. Exit 1: a byte differs.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from unittest.mock import patch

import attention
import numpy as np
import torch
from other_engines import tflite_micro_arena
from torch import Tensor, nn

import tinyweave as tw
from tinyweave import api, passes
from tinyweave.passes.attention.attention_rows import attention_rows

CHANNELS, HEADS, CORE = attention.CHANNELS, attention.HEADS, "cortex-m4"


class Encoder(nn.Module):
    """Encoder layers, norms first, in which each frame sees itself and the `seen - 1` frames before it."""

    def __init__(self, layers: int, seen: int, frames: int, activation: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        how = {"batch_first": True, "norm_first": True, "activation": activation}
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(CHANNELS, HEADS, 4 * CHANNELS, 0.0, **how) for _ in range(layers)
        )
        distance = torch.arange(frames)[:, None] - torch.arange(frames)
        self.register_buffer("hidden", (distance < 0) | (distance >= seen), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, src_mask=self.hidden)
        return x


def row(layers: int, seen: int, python: str | None) -> tuple[str, bool]:
    """Return a row of the table, and whether all bytes are right. `python` is the Python that has TFLite Micro, or None."""
    frames, theirs = layers * (seen - 1) + 1, "not measured"
    samples = np.random.default_rng(0).standard_normal((8, 1, frames, CHANNELS)).astype(np.float32)

    def int8(activation: str) -> tw.Model:
        module = Encoder(layers, seen, frames, activation).eval()
        return tw.quantize(tw.load(module, torch.zeros(1, frames, CHANNELS)), samples, method="minmax").model

    model = int8("gelu")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layer.tflite"
        if python:
            path.write_bytes(int8("relu").file)
            theirs = f"{tflite_micro_arena(path, python):,}"
        path.write_bytes(model.file)
        with patch.object(passes, "PASSES", [each for each in passes.PASSES if each is not attention_rows]):
            whole = tw.plan(tw.load(path), optimize="size").arena["sram"]
    streamed = api.streamed(model, 1)
    assert streamed.stream is not None
    least = [api.plan(each, optimize="size") for each in (model, streamed)]
    proof = api.verify_plan(streamed, least[1], api.ProofOptions(count=2), core=CORE)
    counts = [api.profile_plan(each, api.plan(each), CORE, by_step=False).instructions for each in (model, streamed)]
    arenas = [f"{plan.arena['sram']:,}" for plan in least]
    cells = [layers, seen, frames, theirs, f"{whole:,}", *arenas, f"{streamed.stream.state_bytes:,}"]
    return f"| {' | '.join(map(str, [*cells, *(f'{count:,}' for count in counts)]))} |", proof.ok


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", default="1,2,4", help="numbers of encoder layers, with commas")
    parser.add_argument("--seen", default="16,32", help="numbers of frames that attention sees, with commas")
    parser.add_argument("--tflite-micro", metavar="PYTHON", help="a Python that has PyPI's tflite-micro")
    options, is_right = parser.parse_args(), True
    print("| layers | W | T | TFLite Micro (64-bit) | whole | by rows | streamed | state | instructions | streamed |")
    print(f"|{'---:|' * 10}")
    for layers in map(int, options.layers.split(",")):
        for seen in map(int, options.seen.split(",")):
            line, ok = row(layers, seen, options.tflite_micro)
            print(line, flush=True)
            is_right &= ok
    raise SystemExit(0 if is_right else 1)


if __name__ == "__main__":
    main()
