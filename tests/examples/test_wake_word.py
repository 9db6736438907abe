"""The streaming wake word example: detections are judged by MLPerf Tiny's rules, and its bytes equal Python's."""

from __future__ import annotations

import sys
import wave
from pathlib import Path

import numpy as np
import pytest
from cases.strict import c99
from numpy.typing import NDArray

import tinyweave as tw
from tinyweave.support import toolchain

EXAMPLE = Path(__file__).parents[2] / "examples" / "wake_word"
sys.path.insert(0, str(EXAMPLE))

import wake_word as example  # noqa: E402


def write(path: Path, samples: NDArray[np.int16], rate: int = example.RATE) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes(samples.tobytes())


def run(monkeypatch: pytest.MonkeyPatch, *options: str | Path) -> int:
    monkeypatch.setattr(sys, "argv", ["wake_word.py", *map(str, options)])
    return example.main()


def test_detections_are_judged_by_their_time() -> None:
    said = [(0, 100, "yes"), (50_000, 60_000, "marvin"), (90_000, 95_000, "marvin"), (120_000, 121_000, "no")]
    stream = example.Stream(np.zeros(200_000, np.int16), said)
    assert example.judged(stream, "marvin", []) == (2, 0, [])
    late = 60_000 + example.LATE - 1
    assert example.judged(stream, "marvin", [50_000, late, 120_500]) == (2, 1, ["no"]), "twice for one word is once"
    assert example.judged(stream, "marvin", [late + 1, 99, 100, 92_000]) == (2, 1, ["yes", "yes", "silence"])


def test_the_upper_bound_of_a_poisson_count() -> None:
    """With a mean of 2.996 the count is 0 in one of 20 cases; the other values are from a table of the Poisson distribution."""
    assert [round(example.at_most(count), 2) for count in (0, 1, 2, 10, 200, 1000)] == [3.0, 4.74, 6.3, 16.96, 224.87, 1053.6]


def test_without_other_words_no_false_alarms_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    samples = np.zeros(example.RATE + example.GAP, np.int16)
    example.show_judged(example.Stream(samples, [(0, example.RATE, "marvin")]), "marvin", [0])
    assert capsys.readouterr().out == "  0 of 1 times 'marvin' was not heard (95 %: 0 to 79 %)\n"


@pytest.mark.shared
def test_the_program_detects_the_same_words_as_python(
    shared: Path, tmp_path: Path, emulator: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The recordings are of two people, one of whom says the word. RAM and time are those of one step with its features."""
    for constant, value in (("CHECKED", 60), ("PLAYED", 10_000), ("ON_CORE", 33)):
        monkeypatch.setattr(example, constant, value)
    speech = shared / "data" / "speech_commands_mini"
    for word in ("marvin", "bird"):
        path = sorted((speech / word).glob("*.wav"))[0]
        (tmp_path / "speech" / word).mkdir(parents=True)
        (tmp_path / "speech" / word / path.name).write_bytes(path.read_bytes())
    model = shared / "models" / example.MODEL.name
    assert run(monkeypatch, model, "--data", tmp_path / "speech", "-o", tmp_path / "out") == 0
    printed = capsys.readouterr().out
    assert "0 of 1 times 'marvin' was not heard" in printed and "heard 0 times in" in printed and "NOT the same" not in printed
    assert printed.count("the same as Python") == 1 and "the same at 32 steps" in printed
    assert (tmp_path / "out" / "firmware" / "README.md").is_file()


@pytest.mark.shared
def test_the_c_of_a_step_compiles_without_warnings(shared: Path, tmp_path: Path) -> None:
    network, features = example.load(shared / "models" / example.MODEL.name)
    tw.api.write(tw.api.emit_c(network, tw.api.plan(network)), tmp_path)
    for name, text in example.beside(features).items():
        (tmp_path / name).write_text(text)
    for name in ("step.c", "step.h"):
        (tmp_path / name).write_text((EXAMPLE / name).read_text())
    compiler = toolchain.host()
    given = [*c99(compiler.name), "-Wno-unused-const-variable"]
    toolchain.compile_c(compiler, [*given, "-c", tmp_path / "step.c", "-o", tmp_path / "step.o"])


def test_faulty_input_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    digits = EXAMPLE.parent / "keywords" / "digits.tflite"
    write(tmp_path / "slow" / "yes" / "a.wav", np.zeros(100, np.int16), 8000)
    (tmp_path / "empty").mkdir()
    with pytest.raises(tw.CompileError, match="has 8,000 samples a second; give recordings of 16,000"):
        example.stream_of(tmp_path / "slow")
    with pytest.raises(tw.CompileError, match=r"holds no files \.wav"):
        example.stream_of(tmp_path / "empty")
    for model, why in ((digits, "does not take int8 frames of 40 features"), (tmp_path / "none", "none")):
        assert run(monkeypatch, model, "--data", tmp_path / "slow", "-o", tmp_path / "out") == 2
        said = capsys.readouterr().err
        assert why in said and said.count("\n") == 1
    assert not (tmp_path / "out").exists()
