"""Programs that read a stream: the header of a wav file in C, and firmware that prints the same as Python."""

from __future__ import annotations

import struct
import subprocess
import wave
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import qemu_firmware as firmware
from cases.strict import c99, sanitizers
from firmware_programs import listening as listening_firmware
from firmware_programs import looking, run_program
from projects.export import needs

import tinyweave as tw
from tinynas.int8 import int8_outputs
from tinynas.tasks import listening
from tinynas.tasks.features import log_mel
from tinyweave import api
from tinyweave.projects import firmware_files
from tinyweave.simulate.run import Fault
from tinyweave.support import toolchain

RATE, OTHER, NO_WAV = 8000, -2, -1
HEAD = """
#include <stdio.h>
#include "wav.h"

static int32_t some(void *user, void *destination, int32_t count)
{
    (void)user;
    return (int32_t)fread(destination, 1, count < 5 ? (size_t)count : 5, stdin); /* a reader may bring less than is asked for */
}

int main(void)
{
    const int64_t bytes = wav_begin(some, NULL, 8000);
    printf("%d %ld\\n", (int)(bytes < 100000000 ? bytes : 100000000), ftell(stdin));
    return 0;
}
"""
DIGITS = Path(__file__).parents[2] / "examples" / "keywords" / "digits.tflite"
FEATURES = log_mel(RATE, 32)
HEARING = {"every": 6, "steps": 2, "threshold": -120, "pause": 3}


def wav(count: int, rate: int = RATE, channels: int = 1, width: int = 2) -> bytes:
    with wave.open(stream := BytesIO(), "wb") as file:
        file.setparams((channels, width, rate, 0, "NONE", ""))
        file.writeframes(bytes(count * channels * width))
    return stream.getvalue()


def chunk(name: bytes, body: bytes) -> bytes:
    return name + struct.pack("<I", len(body)) + body + bytes(len(body) % 2)


def files() -> list[tuple[bytes, int, int | None]]:
    """Return files, the expected result of `wav_begin`, and the expected offset of the samples."""
    plain = wav(50)
    riff, form, data = plain[:12], plain[12:36], plain[36:]
    extra = [chunk(b"LIST", b"odd" * 7), chunk(b"fact", bytes(4))]
    cases = [(plain, 100, 44), (riff + extra[0] + form + extra[1] + data, 100, 44 + 30 + 12)]
    cases += [(riff + chunk(b"fmt ", form[8:] + bytes(2)) + data, 100, 46)]
    cases += [(wav(9, rate=16_000), OTHER, None), (wav(9, channels=2), OTHER, None), (wav(9, width=1), OTHER, None)]
    cases += [(riff + form[:8] + b"\3" + form[9:] + data, OTHER, None)]  # floats
    cases += [
        (riff + data, NO_WAV, None),
        (b"RIFX" + plain[4:], NO_WAV, None),
        (plain[:8] + b"AVI " + plain[12:], NO_WAV, None),
    ]
    cases += [
        (riff + chunk(b"fmt ", form[8:20]) + data, NO_WAV, None),
        (riff + form + chunk(b"LIST", b"") * 70 + data, NO_WAV, None),
    ]
    cases += [
        (riff + b"LIST\xff\xff\xff\xff" + form + data, NO_WAV, None),
        (riff + form + b"data\xff\xff\xff\xff", 100_000_000, 44),
    ]
    return cases + [(plain[:length], NO_WAV, None) for length in range(0, 43, 3)]


def test_wav_headers_are_parsed_or_refused_in_c(tmp_path: Path) -> None:
    for name, text in {**listening.wav_files(), "main.c": HEAD}.items():
        (tmp_path / name).write_text(text)
    compiler = toolchain.host()
    toolchain.compile_c(compiler, [*c99(compiler.name), "-c", tmp_path / "wav.c", "-o", tmp_path / "strict.o"])
    flags = ["-std=c99", "-O1", *sanitizers(compiler.name)]
    toolchain.compile_c(compiler, [*flags, tmp_path / "main.c", tmp_path / "wav.c", "-o", tmp_path / "main"])
    for number, (data, wanted, place) in enumerate(files()):
        (tmp_path / "file").write_bytes(data)
        with (tmp_path / "file").open("rb") as stream:
            done = subprocess.run([tmp_path / "main"], stdin=stream, capture_output=True, text=True, check=True)
        result, at = map(int, done.stdout.split())
        assert result == wanted and place in (None, at), (number, data[:60])


@pytest.fixture(scope="module")
def model() -> tw.Model:
    return tw.load(DIGITS)


def listener(model: tw.Model, *, stream: bool, **changes: int) -> api.Package:
    board = tw.devices.find("mps2-an500")
    planned = api.make_plan(model, api.Request(limits=api.device_limits(board), core=board.core, stream_inputs=stream))
    beside = {**FEATURES.c_files(), **listening.c_files(), **listening.wav_files()}
    return listening_firmware(api.package([model], [planned], board), beside, **HEARING | changes)


@pytest.fixture(scope="module")
def sound() -> np.ndarray:
    """Return a second of noise, for which classes have equal scores, two seconds of tones, and a part of a frame."""
    rng, time = np.random.default_rng(3), np.arange(2 * RATE + 77) / RATE
    tones = 6000 * np.sin(2 * np.pi * (300 + 900 * np.floor(4 * time)) * time)
    quiet, loud = rng.normal(0, 300, RATE), tones + rng.normal(0, 500, len(time))
    return np.concatenate([quiet, loud]).astype(np.int16)


def expected_output(model: tw.Model, sound: np.ndarray, words: int = 10) -> str:
    """Return the expected output of a listener except for the stack; it may detect the first `words` classes."""
    windows = listening.windows(FEATURES, sound, 49)[HEARING["every"] - 1 :: HEARING["every"]]
    scores = int8_outputs(model.graph, windows[..., None])
    heard = listening.detections(scores[:, :words], HEARING["steps"], HEARING["threshold"], HEARING["pause"])
    best = np.sort(scores, axis=1)
    assert (best[:, -1] == best[:, -2]).any(), "of equal scores the first is the class"
    assert len(set(scores.argmax(axis=1))) > 2 and sum(word >= 0 for word in heard) > 2
    lines = zip(scores, heard, strict=True)
    return "".join(
        f"frame {HEARING['every'] * (number + 1)}: class {row.argmax()}, score {row.max()}"
        f"{f', heard {word}' if word >= 0 else ''}\n"
        for number, (row, word) in enumerate(lines)
    )


def test_a_listener_on_the_host_prints_the_detections_of_python(model: tw.Model, sound: np.ndarray, tmp_path: Path) -> None:
    """It compiles without a warning and runs with a sanitizer; the firmware has the same main."""
    package = listener(model, stream=False)
    for name, text in {**package.files, **package.program}.items():
        (tmp_path / name).write_text(text)
    compiler = toolchain.host()
    strict = [flag for flag in c99(compiler.name) if flag != "-Wundef"]
    toolchain.compile_c(compiler, [*strict, "-Wno-unused-const-variable", "-c", tmp_path / "main.c", "-o", tmp_path / "main.o"])
    flags = ["-std=c99", "-O1", "-DTW_PLAIN_C", *sanitizers(compiler.name)]
    toolchain.compile_c(compiler, [*flags, *sorted(tmp_path.glob("*.c")), "-o", tmp_path / "listen"])
    whole = wav(len(sound))[:44] + sound.tobytes()
    for data, wanted, status in (
        (whole, expected_output(model, sound) + "stack 0\n", 0),
        (whole[:-1001], expected_output(model, sound[:-501]) + "stack 0\n", 0),
        (b"MP3", "it is no wav file\n", 2),
        (wav(8, rate=16_000), "its samples are not of 16 bits, one channel, and the network's rate\n", 2),
    ):
        done = subprocess.run([tmp_path / "listen"], input=data, capture_output=True, check=False)
        assert (done.stdout.decode(), done.returncode) == (wanted, status), done.stderr[-500:]


def test_listener_firmware_under_qemu_prints_the_detections_and_its_ram(
    model: tw.Model, sound: np.ndarray, tmp_path: Path
) -> None:
    needs("qemu-system-arm")
    package, path = listener(model, stream=True, words=4), tmp_path / "a name, with a comma.wav"
    path.write_bytes(wav(len(sound))[:44] + sound.tobytes())
    played = run_program(package, path)
    assert expected_output(model, sound, 4) != expected_output(model, sound)
    assert played.printed == expected_output(model, sound, 4) + f"stack {played.ram['stack']}\n"
    ring = 49 * FEATURES.bands
    assert played.ram["digits_arena"] == sum(package.models[0].plan.arena.values()) and played.ram["features"] == ring
    assert 500 < played.ram["stack"] < 4096 and played.total < 16_384
    path.write_bytes(b"no sound")
    with pytest.raises(Fault, match="mps2-an500 ended early: it said it is no wav file"):
        run_program(package, path)


def test_listener_firmware_without_a_wav_file_prints_an_error(model: tw.Model, tmp_path: Path) -> None:
    needs("qemu-system-arm")
    package = listener(model, stream=True)
    program, _ = firmware.build(firmware_files(package), tmp_path, "cortex-m7", plain=False)
    assert firmware.run(program, "mps2-an500", 60.0) == "it is no wav file\n"
    (tmp_path / "of three words").write_bytes(wav(8))
    assert firmware.run(program, "mps2-an500", 60.0, tmp_path / "of three words").startswith("stack ")


def test_a_listener_with_faulty_options_is_refused(model: tw.Model) -> None:
    for wrong, why in (
        ({"every": 0}, "every cannot be 0"),
        ({"threshold": 128}, "threshold cannot be 128; give -128 to 127"),
        ({"pause": -1}, "pause"),
        ({"words": 0}, "0 of 10 classes cannot be words; give 1 to 10"),
        ({"words": 11}, "11 of 10 classes"),
    ):
        with pytest.raises(tw.CompileError, match=why):
            listener(model, stream=True, **wrong)
    package = listener(model, stream=True)
    with pytest.raises(tw.CompileError, match="'zephyr' has no program of its own; give cmake"):
        api.export_files(package, "zephyr")
    with pytest.raises(tw.CompileError, match="takes its picture by rows; give stream_inputs and a source of JPEG files"):
        looking(package, {}, threshold=1)
    with pytest.raises(tw.CompileError, match=r"two files would be called digits\.c"):
        listening_firmware(package, {"digits.c": ""}, **HEARING)
