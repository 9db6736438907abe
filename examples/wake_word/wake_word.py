"""Run MLPerf Tiny's streaming wake word as a program: every 32 ms it takes new samples, and computes only what they change.

In: str_ww_ref_model.tflite of github.com/mlcommons/tiny, a folder of recordings with a folder for each word, like Speech
Commands. Out: a folder with a firmware that reads a wav file as it comes; how often it hears the word where it is said and
where it is not; the cycles of a whole step, features included. The exit code is 0 if every byte is Python's.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from wake_word_mel import BANDS, HOP, RATE, WakeWordMel, wake_word_mel

import tinyweave as tw
from tinynas.int8 import int8_outputs
from tinynas.tasks import listening
from tinynas.tasks.dataset import files_of
from tinynas.tasks.evaluation.intervals import wilson
from tinynas.tasks.sounds import as_int16
from tinyweave import api
from tinyweave.api.runs import flash_caches, flash_waits
from tinyweave.projects import Package
from tinyweave.simulate import emulated
from tinyweave.simulate.instruction_timing import Cycles, milliseconds
from tinyweave.support import toolchain
from tinyweave.support.files import write_below
from tinyweave.support.media import read_recording, write_recording

sys.path.append(str(Path(__file__).parents[1]))

# isort: split
from firmware_programs import listening as listening_firmware
from firmware_programs import run_program

HERE = Path(__file__).parent
SHARED = HERE.parents[2] / "shared"
MODEL, SPEECH = SHARED / "models" / "mlcommons__tiny__str_ww_ref_model.tflite", SHARED / "data" / "speech_commands_mini"
NAME, BOARD = "wake_word", "mps2-an500"  # where the firmware runs, which QEMU plays
WORD = 0  # the class of the wake word
# a score above 0.95, and then nothing for a second: as MLPerf Tiny counts
HEARING = {"every": 1, "steps": 1, "threshold": 116, "pause": 31, "words": 1}
GAP, LATE = RATE, RATE  # samples of silence behind each recording; how long behind its end the word may still be heard
CHECKED = 1000  # steps that Python computes as well
PLAYED = 30 * RATE  # samples of them that QEMU plays
ON_CORE = 60  # hops that the emulated core gets
ALIGN = 16  # of samples behind the arena, as in step.h


@dataclass(frozen=True, eq=False)
class Stream:
    """Recordings one after the other, with silence between them. said: for each its begin and end in samples, and its word."""

    samples: NDArray[np.int16]
    said: list[tuple[int, int, str]]


def load(path: Path) -> tuple[tw.Model, WakeWordMel]:
    """Return the network, which takes one frame at each call, and its features; raise CompileError for another network."""
    model = tw.load(path, name=NAME)
    source = model.graph.tensors[model.graph.inputs[0]]
    if (source.shape[0], *source.shape[2:]) != (1, 1, BANDS) or (source.dtype, source.zero_point) != ("int8", -128):
        raise tw.CompileError(f"'{path}' does not take int8 frames of {BANDS} features", "give str_ww_ref_model.tflite")
    return api.streamed(model, 1), wake_word_mel(float(source.scale))


def stream_of(folder: Path) -> Stream:
    """Return the recordings of a folder as one stream, in random order; raise CompileError where a rate is not RATE."""
    paths, parts, said, at = files_of(folder, (".wav",)), list[NDArray[np.int16]](), list[tuple[int, int, str]](), 0
    for index in np.random.default_rng(0).permutation(len(paths)):
        rate, values = read_recording(paths[index])
        if rate != RATE:
            raise tw.CompileError(f"'{paths[index]}' has {rate:,} samples a second", f"give recordings of {RATE:,}")
        sound = as_int16(values)
        said.append((at, at + len(sound), paths[index].parent.name))
        parts += [sound, np.zeros(GAP, np.int16)]
        at += len(sound) + GAP
    return Stream(np.concatenate(parts), said)


def firmware(model: tw.Model, features: WakeWordMel) -> Package:
    """Return the network as firmware that listens, for a board that QEMU emulates."""
    board = tw.devices.find(BOARD)
    planned = api.make_plan(model, api.Request(limits=api.device_limits(board), core=board.core))
    package = api.package([model], [planned], board, api.PackageOptions(NAME, command="python examples/wake_word/wake_word.py"))
    return listening_firmware(package, beside(features), **HEARING)


def beside(features: WakeWordMel) -> dict[str, str]:
    """Return the C beside the network: features, ring, smoothing, wav files."""
    return {**features.c_files(), **listening.c_files(), **listening.wav_files()}


def in_python(model: tw.Model, features: WakeWordMel, samples: NDArray[np.int16]) -> NDArray[np.int8]:
    """Return the scores [steps, classes] of a stream, each computed from the network's whole window."""
    assert model.stream
    seen = listening.windows(features, samples, model.stream.frames)
    return int8_outputs(model.whole.graph, seen[:, :, None]).reshape(len(seen), -1)


def printed_by(scores: NDArray[np.int8]) -> str:
    """Return what the program prints for scores [steps, classes]."""
    words = listening.detections(scores[:, : HEARING["words"]], HEARING["steps"], HEARING["threshold"], HEARING["pause"])
    return listening.as_text(range(1, len(scores) + 1), scores, words)


def on_this_machine(package: Package, sound: Path) -> str:
    """Return what the program, compiled for this machine, prints for a wav file."""
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as name:
        folder = Path(name)
        for file, text in {**package.files, **package.program}.items():
            (folder / file).write_text(text, encoding="utf-8")
        flags = ["-std=c99", "-O2", "-DTW_PLAIN_C"]
        toolchain.compile_c(toolchain.host(), [*flags, *sorted(folder.glob("*.c")), "-o", folder / "listen"])
        with sound.open("rb") as file:
            done = subprocess.run([folder / "listen"], stdin=file, capture_output=True, text=True, check=True)
    return done.stdout


def heard_at(printed: str, features: WakeWordMel) -> list[int]:
    """Return, for each time that the program heard the word, how many samples it had taken."""
    lines = printed.splitlines()
    return [features.frame + number * features.hop for number, line in enumerate(lines) if line.endswith("heard 0")]


def judged(stream: Stream, word: str, heard: Sequence[int]) -> tuple[int, int, list[str]]:
    """Return how often the word was said, how often it was heard then, and what was said each time it was heard wrongly."""
    rest, said, right, wrong = list(heard), 0, 0, list[str]()
    for begin, end, spoken in stream.said:
        own = [at for at in rest if begin <= at < end + LATE]
        rest = [at for at in rest if at not in own]
        said += spoken == word
        right += spoken == word and bool(own)
        wrong += [] if spoken == word else [spoken] * len(own)
    return said, right, wrong + ["silence"] * len(rest)


def whole_step(
    model: tw.Model, features: WakeWordMel, device: str, samples: NDArray[np.int16]
) -> tuple[NDArray[np.int8], Cycles, Mapping[str, int], int]:
    """Run all hops of `samples` on the emulated core of a device. Return the scores of each hop, int8 [hops, classes], and of
    the last hop the cycles and the instructions by function; and the bytes of RAM of the network, the ring and the stack.
    """
    board = tw.devices.find(device)
    planned = api.plan(model, board.core, optimize="speed")
    samples_at = -(-planned.arena["sram"] // ALIGN) * ALIGN
    hops = [part.tobytes() for part in samples[: len(samples) // HOP * HOP].reshape(-1, HOP)]
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as name:
        folder = Path(name)
        api.write(api.emit_c(model, planned), folder)
        for file, text in {**beside(features), **{name: (HERE / name).read_text() for name in ("step.c", "step.h")}}.items():
            (folder / file).write_text(text, encoding="utf-8")
        built = emulated.build(folder, "step", board.core)
        caches, waits = flash_caches(board.core, board), flash_waits(board.core, board)
        output = model.graph.tensors[model.graph.outputs[0]].elements
        ran = emulated.invoke(
            built, {"sram": samples_at + 2 * HOP}, [hops[-1]], [output], earlier=[[hop] for hop in hops[:-1]], caches=caches
        )
        (cycles,) = emulated.cycles(board.core, ran, waits).values()
    scores = np.array([np.frombuffer(outputs[0], np.int8) for outputs in (*ran.earlier, ran.outputs)])
    assert ran.stack is not None
    return scores, cycles, ran.functions, planned.arena["sram"] + built.sizes["static"] + ran.stack


def at_most(count: int) -> float:
    """Return the mean of the Poisson distribution that gives `count` or fewer once in 20 times: a 95 % upper limit."""
    low, high = 0.0, 3.0 * count + 10
    for _ in range(50):
        mean = (low + high) / 2
        below = sum(math.exp(heard * math.log(mean) - mean - math.lgamma(heard + 1)) for heard in range(count + 1))
        low, high = (mean, high) if below > 0.05 else (low, mean)
    return high


def show(path: Path, data: Path, word: str, device: str, output: Path) -> int:
    model, features = load(path)
    stream = stream_of(data)
    output.mkdir(parents=True, exist_ok=True)
    package = firmware(model, features)
    write_below(output / "firmware", api.export_files(package, "cmake"))
    write_recording(output / "stream.wav", RATE, stream.samples)
    print(
        f"{len(stream.said)} recordings as a stream of {len(stream.samples) / RATE:.0f} s, a step each {1000 * HOP // RATE} ms"
    )
    printed = on_this_machine(package, output / "stream.wav")
    part = stream.samples[: features.frame + (CHECKED - 1) * HOP]
    scores = in_python(model, features, part)
    same = [printed.startswith(printed_by(scores))]
    print(f"  its C on this machine: {said_of(same[0])} as Python at the first {len(scores)} steps")
    show_judged(stream, word, heard_at(printed, features))
    try:
        write_recording(output / "part.wav", RATE, part[:PLAYED])
        played = run_program(package, output / "part.wav")
    except tw.CompileError as error:
        print(f"  not run as firmware: {error}")
    else:
        known = scores[: features.frames(len(part[:PLAYED]))]
        same.append(played.printed.startswith(printed_by(known) + "stack "))
        print(f"  firmware on QEMU's {BOARD}: {said_of(same[-1])} at all {len(known)} steps")
        print(f"  its RAM is {played.total:,} B: {', '.join(f'{name} {size:,}' for name, size in large(played.ram))}")
    same.append(show_step(model, features, device, part[: ON_CORE * HOP], scores))
    print(f"the firmware is in {output / 'firmware'}")
    return 0 if all(same) else 1


def show_judged(stream: Stream, word: str, heard: Sequence[int]) -> None:
    said, right, wrong = judged(stream, word, heard)
    without = [len(stream.samples), *(begin - end - GAP for begin, end, spoken in stream.said if spoken == word)]
    hours, told = sum(without) / RATE / 3600, f" ({', '.join(sorted(set(wrong)))})" if wrong else ""
    if said:
        low, high = wilson((said - right) / said, said)
        print(f"  {said - right} of {said} times '{word}' was not heard (95 %: {100 * low:.0f} to {100 * high:.0f} %)")
    if hours:
        most = at_most(len(wrong)) / hours
        print(f"  heard {len(wrong)} times{told} in {hours:.3f} hours without it, or at most {most:.0f} times an hour (95 %)")


def show_step(
    model: tw.Model, features: WakeWordMel, device: str, samples: NDArray[np.int16], scores: NDArray[np.int8]
) -> bool:
    """Print what a whole step takes on the emulated core of a device; return whether its bytes are those of Python."""
    emulated_scores, cycles, functions, ram = whole_step(model, features, device, samples)
    steps, board = len(emulated_scores) - 1, tw.devices.find(device)  # the first frame needs two hops
    same = bool((emulated_scores[1:] == scores[:steps]).all())
    print(f"a whole step on the emulated {board.core}: {said_of(same)} at {steps} steps")
    text = f"{cycles.likely:,} cycles ({cycles.fewest:,} to {cycles.most:,})"
    if board.clock_hz:
        low, likely, high = (milliseconds(count, board.clock_hz) for count in (cycles.fewest, cycles.likely, cycles.most))
        text += f", {likely:.2f} ms ({low:.2f} to {high:.2f})"
    print(f"  estimated for {device}: {text}")
    features_share = functions["log_mel"] / sum(functions.values())
    print(f"  {100 * features_share:.0f} % of its instructions make the features; RAM {ram:,} B, stack included")
    return same


def said_of(same: bool) -> str:
    return "the same" if same else "NOT the same"


def large(ram: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return the larger variables of a firmware, and the rest."""
    most = sorted(((name, size) for name, size in ram.items() if size >= 256 and name), key=lambda item: -item[1])
    return [*most, ("others", sum(ram.values()) - sum(size for _, size in most))]


def main() -> int:
    parser = argparse.ArgumentParser(description="let MLPerf Tiny's streaming wake word listen, and count its steps")
    parser.add_argument("model", nargs="?", type=Path, default=MODEL, help="str_ww_ref_model.tflite")
    parser.add_argument("--data", type=Path, default=SPEECH, help="a folder with a folder of 16 kHz wav files for each word")
    parser.add_argument("--word", default="marvin", help="the folder of the wake word")
    parser.add_argument("--device", default="stm32l4r5", help="a device of `tinyweave devices` whose core is emulated")
    parser.add_argument("-o", "--output", type=Path, default=Path("out/wake_word"), help="where everything goes")
    arguments = parser.parse_args()
    try:
        return show(arguments.model, arguments.data, arguments.word, arguments.device, arguments.output)
    except tw.CompileError as error:
        print(f"wake_word.py: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
