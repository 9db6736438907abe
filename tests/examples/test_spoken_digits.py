"""The example's files belong together: features, inputs, labels, network and demo."""

from __future__ import annotations

import csv
import json
import sys
import wave
from pathlib import Path

import numpy as np
import pytest

from tinyweave import api, ops
from tinyweave.simulate import litert

EXAMPLE = Path(__file__).parents[2] / "examples" / "spoken_digits"
sys.path.insert(0, str(EXAMPLE))

import demo  # noqa: E402
import features  # noqa: E402

MODEL = api.load(EXAMPLE / "digits.tflite")
INPUTS = np.load(EXAMPLE / "inputs.npy", allow_pickle=False)
with (EXAMPLE / "inputs.csv").open(encoding="ascii", newline="") as table:
    ROWS = list(csv.DictReader(table))
DIGITS = [int(row["digit"]) for row in ROWS]


def probabilities(x: np.ndarray) -> np.ndarray:
    """int8 [1, 10] of one input, by the numpy reference."""
    return ops.run(MODEL.graph, {"log_mel": x[None]})["probabilities"]


def recordings(shared: Path) -> Path:
    return shared / "data" / "fsdd" / "recordings"


def log_mel(path: Path) -> np.ndarray:
    return features.log_mel(features.one_second(features.read_wav(path))[None])[0]


def test_network_is_small_and_takes_the_features() -> None:
    assert len(MODEL.file) < 200_000
    source, target = (MODEL.graph.tensors[name] for name in ("log_mel", "probabilities"))
    assert MODEL.graph.inputs == ("log_mel",) and MODEL.graph.outputs == ("probabilities",)
    assert (source.shape, source.dtype) == ((1, features.FRAMES, features.BANDS, 1), "int8")
    assert (source.scale, source.zero_point) == (features.SCALE, features.ZERO_POINT)
    assert (target.shape, target.dtype, target.scale, target.zero_point) == ((1, 10), "int8", 1 / 256, -128)


def test_inputs_are_take_0_of_each_digit_with_the_speakers_in_rotation() -> None:
    assert INPUTS.shape == (10, features.FRAMES, features.BANDS, 1) and INPUTS.dtype == np.int8
    speakers = ["george", "jackson", "lucas", "nicolas", "theo", "yweweler"]
    assert [row["recording"] for row in ROWS] == [f"{digit}_{speakers[digit % 6]}_0.wav" for digit in range(10)]
    assert [features.label(row["recording"]) for row in ROWS] == DIGITS == list(range(10))


def test_ten_inputs_are_recognised() -> None:
    assert [int(probabilities(x).argmax()) for x in INPUTS] == DIGITS


@pytest.mark.litert
def test_litert_reference_computes_the_same_bytes() -> None:
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT (pip install 'tinyweave[verify]')")
    runs = litert.run(MODEL.file, [[x[None]] for x in INPUTS])
    for run, x in zip(runs, INPUTS, strict=True):
        assert run.outputs[0].tobytes() == probabilities(x).tobytes()


@pytest.mark.shared
def test_inputs_are_the_features_of_their_recordings(shared: Path) -> None:
    for row, x in zip(ROWS, INPUTS, strict=True):
        np.testing.assert_array_equal(log_mel(recordings(shared) / row["recording"]), x)


@pytest.mark.shared
@pytest.mark.litert
def test_held_out_accuracy(shared: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT (pip install 'tinyweave[verify]')")
    held_out = [path for path in sorted(recordings(shared).glob("*.wav")) if features.take(path.name) < 5]
    assert len(held_out) == 300
    runs = litert.run(MODEL.file, [[log_mel(path)[None]] for path in held_out])
    right = sum(run.outputs[0].argmax() == features.label(path.name) for run, path in zip(runs, held_out, strict=True))
    assert right > 0.95 * len(held_out), right


@pytest.mark.parametrize("samples", [100, 101, features.SAMPLES, 12_001])
@pytest.mark.parametrize("shift", [0, 300, -300])
def test_one_second_is_centred_then_shifted(samples: int, shift: int) -> None:
    second = features.one_second(np.arange(1.0, samples + 1), shift)
    assert second.shape == (features.SAMPLES,)
    start = (features.SAMPLES - samples) // 2 + shift
    for at in (0, 3000, 4000, features.SAMPLES - 1):
        assert second[at] == (at - start + 1 if 0 <= at - start < samples else 0)


def test_mel_filters_are_triangles_over_the_whole_band() -> None:
    filters = features.mel_filters()
    assert filters.shape == (features.FRAME // 2 + 1, features.BANDS)
    assert filters.min() == 0 and filters.max() <= 1 and (filters > 0).sum(axis=0).min() >= 2
    # away from both ends the falling side of one triangle and the rising side of the next add up to one
    inner = slice(filters[:, 0].argmax() + 1, filters[:, -1].argmax())
    np.testing.assert_allclose(filters[inner].sum(axis=1), 1, rtol=1e-12)


@pytest.mark.parametrize("hertz", [250, 1000, 3000])
def test_a_tone_lies_in_its_band_however_loud(hertz: int) -> None:
    tone = np.sin(2 * np.pi * hertz / features.SAMPLE_RATE_HZ * np.arange(features.SAMPLES))
    loud, quiet = features.log_mel(np.stack([tone, tone / 16]))
    band = features.mel_filters()[hertz * features.FRAME // features.SAMPLE_RATE_HZ].argmax()
    assert (loud[..., 0].argmax(axis=1) == band).all() and loud.max() == 127
    np.testing.assert_array_equal(loud, quiet)


def test_silence_is_the_zero_point() -> None:
    second = features.one_second(np.random.default_rng(0).standard_normal(800))
    assert (features.log_mel(second[None])[0, :20] == features.ZERO_POINT).all()


def test_other_recordings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "1_stereo_0.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((2, 2, 44_100, 0, "NONE", ""))
        file.writeframes(bytes(400))
    with pytest.raises(ValueError, match="expected 8 kHz mono 16 bit"):
        features.read_wav(path)


@pytest.mark.emulator
def test_demo_recognises_the_digits_on_both_boards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("unicorn", reason="needs the emulator (pip install 'tinyweave[verify]')")
    monkeypatch.setattr(sys, "argv", ["demo.py", "-o", str(tmp_path)])
    assert demo.main() == 0
    printed = capsys.readouterr().out
    for device in ("stm32f746", "nrf52840"):
        folder = tmp_path / f"digits-{device}"
        assert "verified: every output byte is equal" in (folder / "report.md").read_text(encoding="utf-8")
        assert json.loads((folder / "report.json").read_text(encoding="utf-8"))["fits"] is True
        assert (folder / "digits.c").is_file() and (folder / "digits.h").is_file()
    assert printed.count("10 of 10 right") == 2
    for row, x in zip(ROWS, INPUTS, strict=True):
        best = (int(probabilities(x).max()) + 128) / 256
        lines = [line.split() for line in printed.splitlines() if row["recording"] in line]
        assert lines == [[row["recording"], row["digit"], row["digit"], f"{best:.2f}"]] * 2
