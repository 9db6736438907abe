"""The keyword example: its features, inputs, labels, network, demo and command are consistent."""

from __future__ import annotations

import csv
import json
import sys
import wave
from pathlib import Path

import numpy as np
import pytest

import tinyweave as tw
from tinynas.int8 import int8_outputs
from tinyweave import ops
from tinyweave.simulate import litert

EXAMPLE = Path(__file__).parents[2] / "examples" / "keywords"
sys.path.insert(0, str(EXAMPLE))

import demo  # noqa: E402
import keywords  # noqa: E402
import sounds  # noqa: E402

MODEL = tw.load(EXAMPLE / "digits.tflite")
INPUTS = np.load(EXAMPLE / "inputs.npy", allow_pickle=False)
TRAINED = json.loads((EXAMPLE / "trained.json").read_text(encoding="utf-8"))
with (EXAMPLE / "inputs.csv").open(encoding="ascii", newline="") as table:
    ROWS = list(csv.DictReader(table))
DIGITS = [int(row["digit"]) for row in ROWS]


def probabilities(x: np.ndarray) -> np.ndarray:
    """Return the int8 [1, 10] output for one input by the numpy reference."""
    return ops.run(MODEL.graph, {"log_mel": x[None]})["probabilities"]


@pytest.fixture
def recordings(shared: Path) -> Path:
    return shared / "data" / "fsdd" / "recordings"


def test_the_network_is_small_and_has_the_features_as_input() -> None:
    assert len(MODEL.file) < 100_000
    source, target = (MODEL.graph.tensors[name] for name in ("log_mel", "probabilities"))
    assert MODEL.graph.inputs == ("log_mel",) and MODEL.graph.outputs == ("probabilities",)
    assert (source.shape, source.dtype) == ((1, sounds.FRAMES, sounds.BANDS, 1), "int8")
    assert (source.scale, source.zero_point) == (sounds.SCALE, -sounds.OFFSET / sounds.SCALE)
    assert (target.shape, target.dtype, target.scale, target.zero_point) == ((1, 10), "int8", 1 / 256, -128)


def test_inputs_are_take_0_of_each_digit_with_rotating_speakers() -> None:
    assert INPUTS.shape == (10, sounds.FRAMES, sounds.BANDS, 1) and INPUTS.dtype == np.int8
    speakers = ["george", "jackson", "lucas", "nicolas", "theo", "yweweler"]
    assert [row["recording"] for row in ROWS] == [f"{digit}_{speakers[digit % 6]}_0.wav" for digit in range(10)]
    assert [sounds.named(Path(row["recording"]))[0] for row in ROWS] == DIGITS == list(range(10))


def test_all_ten_inputs_are_classified_correctly() -> None:
    assert [int(probabilities(x).argmax()) for x in INPUTS] == DIGITS


@pytest.mark.litert
def test_litert_gives_the_bytes_of_the_reference_for_the_inputs() -> None:
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT (pip install '.[verify]')")
    runs = litert.run(MODEL.file, [[x[None]] for x in INPUTS])
    for run, x in zip(runs, INPUTS, strict=True):
        assert run.outputs[0].tobytes() == probabilities(x).tobytes()


@pytest.mark.shared
def test_inputs_are_the_features_of_their_recordings(recordings: Path) -> None:
    for row, x in zip(ROWS, INPUTS, strict=True):
        np.testing.assert_array_equal(sounds.features(sounds.read_digit(recordings / row["recording"])), x)


@pytest.mark.shared
def test_held_out_accuracy_equals_the_recorded_one(recordings: Path) -> None:
    training, held_out = sounds.recordings(recordings)
    assert (len(training), len(held_out)) == (TRAINED["trained_on"], TRAINED["held_out"]) == (2700, 300)
    assert not {path.name for path in training} & {path.name for path in held_out}
    values = np.stack([sounds.features(sounds.read_digit(path)) for path in held_out])
    labels = [sounds.named(path)[0] for path in held_out]
    right = int((int8_outputs(MODEL.graph, values).argmax(axis=1) == labels).sum())
    assert right == TRAINED["right"]["int8"] > 0.95 * len(held_out)


def spoken_files(folder: Path, *names: str, rate: int = 8000) -> Path:
    folder.mkdir()
    for name in names:
        with wave.open(str(folder / name), "wb") as file:
            file.setparams((1, 2, rate, 0, "NONE", ""))
            file.writeframes(bytes(400))
    return folder


def test_recordings_of_another_rate_or_name_are_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, rate, why in (("1_a_0.wav", 16_000, "16,000 samples a second"), ("one.wav", 8000, "does not say what it is")):
        folder = spoken_files(tmp_path / name[:3], name, rate=rate)
        monkeypatch.setattr(sys, "argv", ["keywords.py", "--data", str(folder), "-o", str(tmp_path / "out")])
        assert keywords.main() == 2
        said = capsys.readouterr().err
        assert why in said and said.count("\n") == 1
    with pytest.raises(tw.CompileError, match="there are no wav files"):
        sounds.recordings(tmp_path)
    assert not (tmp_path / "out").exists()


def test_incomplete_recordings_are_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are refused before anything is built or trained."""
    pytest.importorskip("torch", reason="needs torch: pip install torch")
    import train

    held_out = [f"{digit}_a_0.wav" for digit in range(10)]
    trained = spoken_files(tmp_path / "trained", "1_a_7.wav")
    one = spoken_files(tmp_path / "one", "1_a_0.wav", "1_a_7.wav")
    untrained = spoken_files(tmp_path / "untrained", *held_out)
    other = spoken_files(tmp_path / "other", *held_out, "1_a_7.wav", rate=16_000)
    for program, folder, why in (
        (keywords, trained, "no takes 0 to 4"),
        (keywords, one, "no held-out recording of the digit 3"),
        (train, trained, "no takes 0 to 4"),
        (train, one, "0_a_0.wav'"),
        (train, untrained, "no takes to train on"),
        (train, other, "16,000 samples a second"),
    ):
        monkeypatch.setattr(sys, "argv", ["program", "--data", str(folder), "-o", str(tmp_path / "out")])
        assert program.main() == 2
        said = capsys.readouterr().err
        assert why in said and said.count("\n") == 1 and not (tmp_path / "out").exists()


@pytest.mark.parametrize("count", ["0", "-1"])
def test_an_invalid_number_of_inputs_is_refused_in_one_line(
    count: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["keywords.py", "--inputs", count, "--data", str(tmp_path), "-o", str(tmp_path / "out")])
    assert keywords.main() == 2
    said = capsys.readouterr().err
    assert "--inputs" in said and said.count("\n") == 1 and not (tmp_path / "out").exists()


@pytest.mark.emulator
def test_demo_recognises_the_digits_on_both_boards(
    tmp_path: Path, emulator: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["demo.py", "-o", str(tmp_path)])
    assert demo.main() == 0
    printed = capsys.readouterr().out
    for device in ("stm32f746", "nrf52840"):
        folder = tmp_path / f"digits-{device}"
        assert "verified: every output byte equals the reference" in (folder / "report.md").read_text(encoding="utf-8")
        assert json.loads((folder / "report.json").read_text(encoding="utf-8"))["fits"] is True
        assert (folder / "digits.c").is_file() and (folder / "digits.h").is_file()
    assert printed.count("10 of 10 right") == 2
    for row, x in zip(ROWS, INPUTS, strict=True):
        best = (int(probabilities(x).max()) + 128) / 256
        lines = [line.split() for line in printed.splitlines() if row["recording"] in line]
        assert lines == [[row["recording"], row["digit"], row["digit"], f"{best:.2f}"]] * 2


@pytest.mark.emulator
def test_without_the_data_set_the_example_verifies_its_stored_inputs(
    tmp_path: Path, emulator: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["keywords.py", "--data", str(tmp_path / "none"), "--inputs", "14", "-o", str(tmp_path)])
    assert keywords.main() == 0
    printed = capsys.readouterr().out
    assert printed.startswith("14 inputs: there are no recordings in") and "10 held-out ones and random numbers" in printed
    assert printed.count("every byte is the reference's") == 2 and "int8, the reference: 10 of 10" in printed
    assert "nothing, it is noise" in printed and "NOT" not in printed
    assert (tmp_path / "picture.svg").read_text().startswith("<svg") and (tmp_path / "firmware" / "README.md").is_file()
