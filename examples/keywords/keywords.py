"""Deploy the network of spoken digits, prove it on many recordings, let it listen to a stream, and draw what it hears.

In: digits.tflite; the Free Spoken Digit Dataset, if it is there. Out: a folder with the C, a firmware that reads a wav file as
it comes, and picture.svg: which digits are taken for which, and what is heard along a recording. The exit code is 0 if every
byte is right and all fits.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sounds import BANDS, DIGITS, FEATURES, FRAMES, HERE, RATE, RECORDINGS, features, named, read_digit, recordings

import tinyweave as tw
from tinynas.int8 import int8_outputs
from tinynas.tasks import listening
from tinynas.tasks.evaluation.intervals import wilson
from tinyweave import api
from tinyweave.simulate import target
from tinyweave.support.files import write_below
from tinyweave.support.media import write_recording

sys.path.append(str(Path(__file__).parents[1]))

# isort: split
from firmware_programs import listening as listening_firmware
from firmware_programs import run_program
from recognised import Heard, confusion, recognised_svg

MODEL, INPUTS, TRAINED = HERE / "digits.tflite", HERE / "inputs.npy", HERE / "trained.json"
BOARD = "mps2-an500"  # where the firmware runs, which QEMU plays
# frames between inferences; the smoothing in inferences, an int8 score, inferences; chosen on recordings of the training part
HEARING = {"every": 4, "steps": 4, "threshold": 70, "pause": 8}
SHOWN = 128  # bytes from which a variable is named
GAP = 3 * RATE // 8  # samples of silence between the digits of the recording


def held_out_inputs(data: Path, count: int) -> tuple[NDArray[np.int8], NDArray[np.int64], str]:
    """Return inputs [n, frames, bands, 1], their digits (-1: of random numbers), and what they are as text.

    These are all held-out recordings, in random order; without the data set INPUTS, and random numbers up to `count` in all.
    """
    if data.is_dir():
        _, paths = recordings(data)
        # in random order, so that the first ones are of all digits and speakers
        chosen = [paths[index] for index in np.random.default_rng(0).permutation(len(paths))]
        labels = np.array([named(path)[0] for path in chosen])
        return np.stack([features(read_digit(path)) for path in chosen]), labels, "held-out recordings"
    real = np.load(INPUTS, allow_pickle=False)
    drawn = np.random.default_rng(0).integers(-128, 128, (max(0, count - len(real)), FRAMES, BANDS, 1)).astype(np.int8)
    what = f"inputs: there are no recordings in '{data}', so these are {len(real)} held-out ones and random numbers"
    return np.concatenate([real, drawn]), np.array([*range(DIGITS), *[-1] * len(drawn)]), what


def spoken(data: Path) -> tuple[NDArray[np.int16], list[int]]:
    """Return a recording of digits with short pauses, from held-out files, and the digits; without the data set, noise."""
    if not data.is_dir():
        return np.random.default_rng(1).normal(0, 300, 3 * RATE).astype(np.int16), []
    _, paths = recordings(data)
    digits = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 0]
    by_digit = {digit: [path for path in paths if named(path)[0] == digit] for digit in range(DIGITS)}
    if missing := [digit for digit in digits if not by_digit[digit]]:
        raise tw.CompileError(f"'{data}' has no held-out recording of the digit {missing[0]}", "add takes 0 to 4 of each digit")
    chosen = [by_digit[digit][(7 * place) % len(by_digit[digit])] for place, digit in enumerate(digits)]
    parts = [part for path in chosen for part in (np.zeros(GAP, np.int16), read_digit(path))]
    return np.concatenate([*parts, np.zeros(2 * GAP, np.int16)]), digits


def heard_in(model: tw.Model, samples: NDArray[np.int16]) -> tuple[list[int], NDArray[np.int8], list[int]]:
    """Return the frames after which the network runs, its scores [n, digits], and the digit detected then, or -1."""
    frames = np.arange(HEARING["every"], FEATURES.frames(len(samples)) + 1, HEARING["every"])
    seen = listening.windows(FEATURES, samples, FRAMES)[frames - 1]
    scores = int8_outputs(model.graph, seen[..., None])
    return frames.tolist(), scores, listening.detections(scores, HEARING["steps"], HEARING["threshold"], HEARING["pause"])


def firmware(model: tw.Model) -> api.Package:
    """Return the network as firmware that listens, for a board that QEMU emulates; the network reads its features by rows."""
    board = tw.devices.find(BOARD)
    planned = api.make_plan(model, api.Request(limits=api.device_limits(board), core=board.core, stream_inputs=True))
    beside = {**FEATURES.c_files(), **listening.c_files(), **listening.wav_files()}
    package = api.package(
        [model], [planned], board, api.PackageOptions("keywords", command="python examples/keywords/keywords.py")
    )
    return listening_firmware(package, beside, **HEARING)


def parts_of(ram: Mapping[str, int]) -> str:
    """Return the RAM of a firmware as text: its variables of at least SHOWN bytes, and the rest."""
    large = {name: size for name, size in sorted(ram.items(), key=lambda item: -item[1]) if size >= SHOWN}
    rest = {"others": sum(ram.values()) - sum(large.values())}
    return ", ".join(f"{name} {size:,}" for name, size in (large | rest).items())


def percent(right: int, count: int) -> str:
    """Return a share as text, with its 95 % interval."""
    low, high = wilson(right / count, count)
    return f"{right} of {count}, {100 * right / count:.1f} % (95 % of such sets: {100 * low:.1f} to {100 * high:.1f} %)"


def main() -> int:
    parser = argparse.ArgumentParser(description="deploy the spoken digits, prove them, and let them listen")
    parser.add_argument("--data", type=Path, default=RECORDINGS, help="the data set's folder of wav files")
    parser.add_argument("--device", default="stm32f746", help="a board of `tinyweave devices`")
    parser.add_argument("--inputs", type=int, default=200, help="how many inputs run on the emulated core")
    parser.add_argument("-o", "--output", type=Path, default=Path("out/keywords"), help="where everything goes")
    arguments = parser.parse_args()
    try:
        return show(arguments.data, arguments.device, arguments.inputs, arguments.output)
    except tw.CompileError as error:
        print(f"keywords.py: {error}", file=sys.stderr)
        return 2


def show(data: Path, device: str, count: int, output: Path) -> int:
    """Deploy the network, prove and measure it, let it listen, and draw it all into `output`; return the exit code."""
    if count < 1:
        raise tw.CompileError(f"--inputs {count} runs nothing", "give at least 1")
    board, model = tw.devices.find(device), tw.load(MODEL)
    values, labels, what = held_out_inputs(data, count)
    sound, digits = spoken(data)
    samples = [[sample[None]] for sample in values[:count]]
    done = tw.deploy(model, device, out=output / "network", inputs=samples[:10], samples=10)
    if done.profile is None or done.verification is None:
        raise tw.CompileError(f"the network does not fit {device}", "give a larger --device")
    run = [
        api.run_plan(model, done.plan, output / "network", samples, core) for core in (target.HOST, api.emulated_core(board))
    ]
    here, there = (np.concatenate([scores for (scores,) in outputs]) for outputs in run)
    wanted = int8_outputs(model.graph, values)
    same = [bool((outputs == wanted[: len(outputs)]).all()) for outputs in (here, there)]
    profile = done.profile
    print(f"{len(samples)} {what}")
    print(f"  this machine: {'every byte is' if same[0] else 'NOT every byte is'} the reference's")
    print(f"  emulated {profile.core}: {'every byte is' if same[1] else 'NOT every byte is'} the reference's")

    known, trained = labels >= 0, json.loads(TRAINED.read_text(encoding="utf-8"))
    print("recognised")
    print(f"  float, when it was trained: {percent(trained['right']['float'], trained['held_out'])}")
    print(f"  int8, the reference: {percent(int((wanted.argmax(1) == labels)[known].sum()), int(known.sum()))}")
    on_board = (there.argmax(1) == labels[: len(there)])[known[: len(there)]]
    print(f"  int8, emulated {device}: {percent(int(on_board.sum()), len(on_board))}")
    print(f"RAM {profile.ram:,} B: arena {sum(profile.arena.values()):,}, static {profile.static:,}, stack {profile.stack:,}")
    print(f"Flash {profile.flash:,} B: weights {profile.weights:,}, tables {profile.tables:,}, code {profile.code:,}")
    ms = profile.latency_ms(board)
    print(f"instructions {profile.instructions:,}" + ("" if ms is None else f", about {ms:.1f} ms on {device}"))

    frames, scores, heard = heard_in(model, sound)
    words = [word for word in heard if word >= 0]
    print(f"a recording of {len(sound) / RATE:.1f} s, an inference each {HEARING['every'] * FEATURES.hop * 1000 // RATE} ms")
    print(f"  said   {' '.join(map(str, digits)) or 'nothing, it is noise'}\n  heard  {' '.join(map(str, words)) or 'nothing'}")
    package = firmware(model)
    write_below(output / "firmware", api.export_files(package, "cmake"))
    write_recording(output / "recording.wav", RATE, sound)
    agrees = True
    try:
        played = run_program(package, output / "recording.wav")
    except tw.CompileError as error:
        print(f"  not run as firmware: {error}")
    else:
        agrees = played.printed.startswith(listening.as_text(frames, scores, heard) + "stack ")
        print(f"  firmware on QEMU's {BOARD}: {'the same' if agrees else 'NOT the same'} at all {len(frames)} inferences")
        print(f"  its RAM is {played.total:,} B: {parts_of(played.ram)}")
    counts = confusion(labels[known], wanted.argmax(1)[known], DIGITS)
    seconds = [((frame - 1) * FEATURES.hop + FEATURES.frame) / RATE for frame in frames]
    names = [str(digit) for digit in range(DIGITS)]
    title = f"{int(known.sum())} held-out recordings, int8"
    (output / "picture.svg").write_text(
        recognised_svg(title, names, counts, Heard(sound, RATE, seconds, scores, heard)), encoding="utf-8"
    )
    print(f"drew {output / 'picture.svg'}; the C is in {output / 'network'}, the firmware in {output / 'firmware'}")
    return 0 if all(same) and agrees and done.fits and done.verification.ok else 1


if __name__ == "__main__":
    sys.exit(main())
