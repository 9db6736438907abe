"""`--stream-time` with transformers from PyTorch: the C of a call keeps keys and values, and returns the rows of new frames."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

import torch
from cases.from_torch import trained
from torch import Tensor, nn

import tinyweave as tw
from tinyweave import api
from tinyweave.cli import main
from tinyweave.simulate import emulated

CHANNELS, HEADS, SEEN, FRAMES = 16, 4, 8, 24


class Encoder(nn.Module):
    """A convolution along time, two encoder layers and a dense layer; a frame sees itself and the 7 frames before it."""

    def __init__(self, *, masked: bool = True) -> None:
        super().__init__()
        self.convolution, self.head = nn.Conv1d(CHANNELS, CHANNELS, 3), nn.Linear(CHANNELS, 3)
        how = {"batch_first": True, "norm_first": True, "activation": "gelu"}
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(CHANNELS, HEADS, 2 * CHANNELS, **how) for _ in range(2))
        rows = torch.arange(FRAMES - 2)
        distance = rows[:, None] - rows
        self.hidden = (distance < 0) | (distance >= SEEN) if masked else None

    def forward(self, x: Tensor) -> Tensor:
        x = self.convolution(x.transpose(1, 2)).transpose(1, 2)
        for layer in self.layers:
            x = layer(x, src_mask=self.hidden)
        return self.head(x)


@pytest.fixture(scope="module")
def model() -> tw.Model:
    return int8(Encoder())


def int8(module: nn.Module) -> tw.Model:
    samples = np.random.default_rng(0).standard_normal((8, 1, FRAMES, CHANNELS)).astype(np.float32)
    return tw.quantize(tw.load(trained(module), torch.zeros(1, FRAMES, CHANNELS)), samples, method="minmax").model


@pytest.mark.litert
@pytest.mark.parametrize("hop", [1, 3])
def test_a_call_of_a_transformer_equals_the_network_on_its_window(
    hop: int, model: tw.Model, litert: ModuleType, emulator: None
) -> None:
    streamed, cores = api.streamed(model, hop), [core for core in ("cortex-m4", "cortex-m55") if not emulated.missing(core)]
    proof = api.verify_plan(streamed, api.plan(streamed, optimize="size"), api.ProofOptions(count=3), core=cores)
    assert proof.ok, proof.first_difference
    assert proof.reference == "LiteRT's reference kernels, equal to numpy reference"


def test_a_call_needs_little_more_ram_than_its_state(model: tw.Model, emulator: None) -> None:
    streamed = api.streamed(model, 1)
    assert streamed.stream is not None
    caches = 2 * 2 * SEEN * CHANNELS  # keys and values of two layers
    assert streamed.stream.state_bytes == caches + 3 * CHANNELS, "and the frames that the convolution reads"
    masks = [name for name in streamed.graph.tensors if name.endswith(".mask")]
    assert len(masks) == 1, "all heads share the part of the mask that the new row sees"
    least, whole = (api.plan(each, optimize="size").arena["sram"] for each in (streamed, model))
    assert least <= caches + 16 * CHANNELS < whole
    one, all_rows = (
        api.profile_plan(each, api.plan(each), "cortex-m4", by_step=False).instructions for each in (streamed, model)
    )
    assert 15 * one < all_rows


def test_the_header_says_that_outputs_hold_new_rows(model: tw.Model, tmp_path: Path) -> None:
    tw.compile(model, out=tmp_path, stream_time=2)
    header = (tmp_path / "encoder.h").read_text()
    assert "#define ENCODER_OUTPUT_0_SHAPE {1, 2, 3}\n" in header
    assert "Outputs with rows along time hold only the new rows, the oldest first. */" in header
    files = tw.export(model, out=tmp_path / "cmake", format="cmake", stream_time=2).files
    (samples,) = (path for path in files if path.name.endswith("_samples.h"))
    assert "#define ENCODER_SAMPLES 12" in samples.read_text()


def test_a_transformer_without_mask_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "unmasked.tflite"
    path.write_bytes(int8(Encoder(masked=False)).file)
    assert main(["plan", str(path), "--stream-time", "1"]) == 2
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 1 and not printed.out
    assert "sees 21 rows before each row and 21 after it; mask its scores with -inf, except for a band" in printed.err
