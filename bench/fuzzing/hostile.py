"""Damages real models in every way that it knows, and sees that the compiler never breaks.

In: folders of .tflite files (--models). Out: what became of each damaged file: compiled, or refused with one line. Anything
else (an exception, a signal, too much time or memory) is a find, kept in --keep under its seed, with exit code 1; `--first N
--count 1` makes file N again. Import, passes, plan and emit run in processes under limits. With `--run N`, the C of every Nth
file that compiles is also built with sanitizers, run on this machine, and compared with the numpy reference.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
BATCH = 250
GOOD = ("compiled", "refused", "equal")

INTEGERS = (
    *(0, 1, 2, 3, 4, 7, 8, 16, 127, 128, 255, 256),
    *(32767, 65535, 65536),
    *(1 << bit for bit in (20, 24, 31)),
    (1 << 31) - 1,
    (1 << 32) - 1,
)
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-45, 1e-38, 1e-30, 1e-10, 0.5, 255.0, 1e10, 3e38, float("inf"), float("-inf"), float("nan"))


@dataclass(frozen=True)
class Place:
    """A number in a file and what it means there: `role` names places whose values may be exchanged."""

    role: str
    at: int
    form: str


# table -> its fields: slot of the vtable, role, form; "[" is a vector of that form, a capital word a table
FIELDS: dict[str, tuple[tuple[int, str, str], ...]] = {
    "Model": ((4, "version", "I"), (6, "", "[OperatorCode"), (8, "", "[SubGraph"), (12, "", "[Buffer")),
    "OperatorCode": ((4, "code", "b"), (6, "custom code", "[B"), (8, "op version", "i"), (10, "wide code", "i")),
    "SubGraph": ((4, "", "[Tensor"), (6, "tensor", "[i"), (8, "tensor", "[i"), (10, "", "[Operator"), (12, "name", "[B")),
    "Tensor": (
        (4, "extent", "[i"), (6, "type", "b"), (8, "buffer", "I"), (10, "name", "[B"), (12, "", "Quantization"),
        (14, "flag", "B"),
    ),
    "Quantization": ((8, "scale", "[f"), (10, "zero point", "[q"), (12, "details", "b"), (16, "axis", "i")),
    "Operator": ((4, "code index", "I"), (6, "tensor", "[i"), (8, "tensor", "[i"), (10, "said", "b"), (12, "", "Options")),
    "Buffer": ((4, "constant", "[B"), (6, "offset", "Q"), (8, "size", "Q")),
}  # fmt: skip
SIZES = {"b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4, "f": 4, "q": 8, "Q": 8}
SMALL_CONSTANT = 64  # shapes, axes, paddings: constants whose bytes are worth changing


def places(data: bytes) -> list[Place]:
    """Every number of a sound file that says how it is to be read, with its role."""
    found: list[Place] = []

    def number(form: str, at: int) -> int:
        return int(struct.unpack_from(f"<{form}", data, at)[0])

    def vector(role: str, kind: str, at: int) -> None:
        start = at + number("I", at)
        found.extend((Place("reference", at, "I"), Place("length", start, "I")))
        count = number("I", start)
        if kind not in SIZES:
            for index in range(count):
                entry = start + 4 + 4 * index
                found.append(Place(kind, entry, "I"))
                table(kind, entry + number("I", entry))
        elif role == "constant" and count > SMALL_CONSTANT:
            return
        else:
            form = "i" if role == "constant" and count % 4 == 0 else kind
            step = SIZES[form]
            found.extend(Place(role, start + 4 + i, form) for i in range(0, min(count * SIZES[kind], 512), step))

    def table(kind: str, at: int) -> None:
        shape = at - number("i", at)
        slots = number("H", shape) // 2
        found.append(Place("vtable", at, "i"))
        found.extend(Place("slot", shape + 2 * slot, "H") for slot in range(slots))
        if kind == "Options":  # whatever they are: their bytes
            found.extend(Place("option", at + 4 + i, "B") for i in range(number("H", shape + 2) - 4))
            found.extend(Place("option", at + 4 + i, "i") for i in range(0, number("H", shape + 2) - 7, 4))
            return
        for slot, role, form in FIELDS[kind]:
            offset = number("H", shape + slot) if slot // 2 < slots else 0
            if not offset:
                continue
            if form[0] == "[":
                vector(role, form[1:], at + offset)
            elif form in SIZES:
                found.append(Place(role, at + offset, form))
            else:
                found.append(Place("reference", at + offset, "I"))
                table(form, at + offset + number("I", at + offset))

    table("Model", number("I", 0))
    return found


def damage(data: bytes, known: list[Place], rng: random.Random) -> bytes:
    """A file with one to six things wrong with it."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        rng.choices(*zip(*WAYS, strict=True))[0](changed, known, rng)
        if len(changed) < 8:
            break
    return bytes(changed)


def put(changed: bytearray, place: Place, value: float) -> None:
    if place.at + SIZES[place.form] > len(changed):
        return
    if place.form == "f":
        struct.pack_into("<f", changed, place.at, value)
    else:
        size = SIZES[place.form]
        changed[place.at : place.at + size] = (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def get(changed: bytearray, place: Place) -> float:
    if place.at + SIZES[place.form] > len(changed):
        return 0
    return struct.unpack_from(f"<{place.form}", changed, place.at)[0]


def by_role(known: list[Place], rng: random.Random) -> list[Place]:
    """The places of one role, each role as likely as any other."""
    role = rng.choice(sorted({place.role for place in known}))
    return [place for place in known if place.role == role]


def absurd_value(changed: bytearray, known: list[Place], rng: random.Random) -> None:
    place = rng.choice(by_role(known, rng))
    if place.form == "f":
        put(changed, place, rng.choice(FLOATS))
    else:
        put(changed, place, rng.choice((1, -1)) * rng.choice(INTEGERS))


def near_value(changed: bytearray, known: list[Place], rng: random.Random) -> None:
    place = rng.choice(by_role(known, rng))
    value = get(changed, place)
    if place.form == "f":
        put(changed, place, min(3e38, max(-3e38, value * rng.choice((2.0, 0.5, 1.001, -1.0)))))
    else:
        put(changed, place, value + rng.choice((-4, -2, -1, 1, 2, 4)))


def other_value(changed: bytearray, known: list[Place], rng: random.Random) -> None:
    """A value that another place of the role has: cycles, two writers, wrong types, shared tables."""
    same = by_role(known, rng)
    put(changed, rng.choice(same), get(changed, rng.choice(same)) or 0)


def exchange(changed: bytearray, known: list[Place], rng: random.Random) -> None:
    same = by_role(known, rng)
    a, b = rng.choice(same), rng.choice(same)
    first, second = get(changed, a), get(changed, b)
    put(changed, a, second), put(changed, b, first)


def whole_role(changed: bytearray, known: list[Place], rng: random.Random) -> None:
    """One absurd value in all places of a role."""
    value = rng.choice(INTEGERS) if rng.random() < 0.7 else rng.randrange(-200, 200)
    for place in by_role(known, rng):
        put(changed, place, rng.choice(FLOATS) if place.form == "f" else value)


def shape_and_size(changed: bytearray, known: list[Place], rng: random.Random) -> None:
    """An extent, wherever a file has it, becomes another: the shapes agree with each other, and nothing else."""
    extents = [place for place in known if place.role in ("extent", "constant") and place.form == "i"]
    if extents:
        old, new = get(changed, rng.choice(extents)), rng.choice((0, 1, 3, 1000, 46341, 65536, 1 << 20, 1 << 30, (1 << 31) - 1))
        for place in extents:
            if get(changed, place) == old:
                put(changed, place, new)


def bits(changed: bytearray, known: list[Place], rng: random.Random) -> None:
    for _ in range(rng.choice((1, 4, 32))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)


def noise(changed: bytearray, known: list[Place], rng: random.Random) -> None:
    start = rng.randrange(len(changed))
    count = min(rng.choice((1, 4, 16, 256)), len(changed) - start)
    changed[start : start + count] = rng.randbytes(count) if rng.random() < 0.5 else bytes([rng.choice((0, 255))]) * count


def cut(changed: bytearray, known: list[Place], rng: random.Random) -> None:
    del changed[rng.choice((rng.randrange(len(changed)), rng.randrange(min(64, len(changed))), len(changed) - 1)) :]


def remove(changed: bytearray, known: list[Place], rng: random.Random) -> None:
    start = rng.randrange(len(changed))
    del changed[start : start + rng.choice((1, 2, 4, 8, 64))]


def insert(changed: bytearray, known: list[Place], rng: random.Random) -> None:
    start = rng.randrange(len(changed))
    changed[start:start] = rng.randbytes(rng.choice((1, 2, 4, 8, 64)))


Way = Callable[[bytearray, list[Place], random.Random], None]
WAYS: tuple[tuple[Way, float], ...] = (
    (absurd_value, 5),
    (near_value, 5),
    (other_value, 6),
    (exchange, 3),
    (whole_role, 2),
    (shape_and_size, 3),
    (bits, 1),
    (noise, 1),
    (cut, 0.5),
    (remove, 0.5),
    (insert, 0.5),
)


class TooSlow(BaseException):
    """Passed the limit of seconds; no `except Exception` of the compiler may hide it."""


def front(data: bytes, float_io: bool) -> int:
    """Everything from the file to the C; the bytes of C."""
    from tinyweave.codegen import Origin, emit
    from tinyweave.importers.tflite import from_tflite
    from tinyweave.passes import run_passes
    from tinyweave.planning import plan

    graph, _ = run_passes(from_tflite(data, "hostile"), float_io=float_io)
    files = emit(plan(graph), "hostile", Origin("hostile.tflite", "0" * 64)).files
    return sum(len(text.encode("ascii")) for text in files.values())


def differs(data: bytes, seed: int) -> str | None:
    """What is wrong with the C of a file that compiles, None when it gives the reference's bytes or is too large to ask."""
    from tinyweave import ops
    from tinyweave.codegen import Origin, emit
    from tinyweave.importers.tflite import from_tflite
    from tinyweave.ir import CompileError
    from tinyweave.ops import macs
    from tinyweave.passes import run_passes
    from tinyweave.planning import plan
    from tinyweave.simulate import compare, host

    graph, _ = run_passes(from_tflite(data, "hostile"), float_io=True)
    made = plan(graph)
    if macs(graph) > 20_000_000 or sum(made.arena.values()) > 4 << 20:
        return None
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as name:
        for file, text in emit(made, "hostile", Origin("hostile.tflite", "0" * 64)).files.items():
            (Path(name) / file).write_text(text)
        try:
            program = host.build(Path(name), "hostile", sanitize=True)
            for sample in compare.samples(graph, 4, seed, [])[::3]:
                expected = ops.run(graph, dict(zip(graph.inputs, sample, strict=True)))
                run = host.invoke(program, made.arena, compare.pack(sample), compare.output_bytes(graph))
                for output, array in zip(graph.outputs, compare.unpack(graph, run), strict=True):
                    if difference := compare.difference(expected[output], array):
                        return f"output '{output[:100]}': {difference}"
        except CompileError as error:
            return str(error)
        except Exception:
            return traceback.format_exc(limit=-6)
    return None


def mutant(files: list[Path], seed: int) -> tuple[bytes, random.Random, str]:
    rng = random.Random(seed)
    file = rng.choice(files)
    data = file.read_bytes()
    return damage(data, places(data), rng), rng, file.name


def one(files: list[Path], seed: int, limit_s: float) -> dict[str, Any]:
    """What became of one damaged file."""
    from tinyweave.ir import CompileError

    data, rng, name = mutant(files, seed)
    begun = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        front(data, rng.random() < 0.5)
        outcome, why = "compiled", ""
    except CompileError as error:
        outcome, why = "refused", str(error)
        if "\n" in why or len(why) > 4000:
            outcome = "more than one line"
    except TooSlow:
        outcome, why = "too slow", traceback.format_exc(limit=-6)
    except MemoryError:
        outcome, why = "too much memory", traceback.format_exc(limit=-6)
    except BaseException:
        outcome, why = "traceback", traceback.format_exc(limit=-6)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return {"seed": seed, "file": name, "outcome": outcome, "why": why, "seconds": time.monotonic() - begun}


def work(files: list[Path], first: int, count: int, limit_s: float, limit_mb: int) -> None:
    """The worker: a line of JSON before and after each file."""

    def late(*_: object) -> None:
        raise TooSlow

    import tinyweave.api.runs  # noqa: F401 - what is loaded before the limit does not count

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() if sys.platform == "linux" else 0
    resource.setrlimit(resource.RLIMIT_AS, (used + (limit_mb << 20), used + (limit_mb << 20)))
    signal.signal(signal.SIGALRM, late)
    warnings.simplefilter("error")  # a user would see them
    for seed in range(first, first + count):
        print(json.dumps({"begins": seed}), flush=True)
        print(json.dumps(one(files, seed, limit_s)), flush=True)


def _lines(stream: IO[bytes], patience_s: float) -> Iterator[dict[str, Any]]:
    """The JSON lines of a worker, until it ends or says nothing for so long."""
    left = b""
    while select.select([stream], [], [], patience_s)[0] and (chunk := os.read(stream.fileno(), 1 << 16)):
        *lines, left = (left + chunk).split(b"\n")
        yield from map(json.loads, lines)


def results(command: list[str], files: list[Path], first: int, count: int, limit_s: float) -> Iterator[dict[str, Any]]:
    """The outcomes of seeds [first, first + count), from workers that are replaced when they die or hang."""
    end = first + count
    while first < end:
        size = min(BATCH, end - first)
        with tempfile.TemporaryFile() as errors:
            child = subprocess.Popen(
                [*command, "--work", str(first), str(size)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )
            assert child.stdin and child.stdout
            child.stdin.write("\n".join(map(str, files)).encode())
            child.stdin.close()
            for said in _lines(child.stdout, 60 + 3 * limit_s):
                if "begins" in said:
                    current = said["begins"]
                else:
                    first = said["seed"] + 1
                    yield said
            child.kill()
            code = child.wait()
            child.stdout.close()
            errors.seek(0)
            said_last = errors.read().decode(errors="replace")[-1500:]
        if first <= current:  # it ended within a file
            yield {"seed": current, "file": "", "outcome": "died", "why": f"code {code}: {said_last}", "seconds": 0.0}
            first = current + 1


def usable(folders: list[Path], max_bytes: int) -> list[Path]:
    """The small models that compile as they are: the others are refused for what they are, whatever is done to them."""
    from tinyweave.ir import CompileError

    def compiles(file: Path) -> bool:
        try:
            return front(file.read_bytes(), True) > 0
        except CompileError:
            return False

    found = sorted(f for folder in folders for f in folder.glob("*.tflite") if f.stat().st_size <= max_bytes)
    return [file for file in found if compiles(file)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, action="append", help="a folder of .tflite files; may be given again")
    parser.add_argument(
        "--max-bytes", type=int, default=100_000, help="leave larger files out: they take long and teach no more"
    )
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--limit-s", type=float, default=20, help="seconds per file")
    parser.add_argument("--limit-mb", type=int, default=1024, help="megabytes beyond what an idle worker has")
    parser.add_argument("--run", type=int, default=0, metavar="N", help="run every Nth that compiles")
    parser.add_argument("--keep", type=Path, help="folder for the files that broke something")
    parser.add_argument("--work", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    folders = options.models or [SHARED / "models", SHARED / "model_ops"]
    if options.work:
        work([Path(line) for line in sys.stdin.read().splitlines()], *options.work, options.limit_s, options.limit_mb)
        return 0
    files = usable(folders, options.max_bytes)
    if not files:
        print(f"no models in {', '.join(map(str, folders))}", file=sys.stderr)
        return 2
    command = [sys.executable, __file__, "--limit-s", str(options.limit_s), "--limit-mb", str(options.limit_mb)]
    counts: Counter[str] = Counter()
    slowest: dict[str, Any] = {"seconds": 0.0}
    begun = time.monotonic()
    for result in results(command, files, options.first, options.count, options.limit_s):
        if result["outcome"] == "compiled" and options.run and (counts["compiled"] + counts["equal"]) % options.run == 0:
            result["why"] = differs(mutant(files, result["seed"])[0], result["seed"])
            result["outcome"] = "differs" if result["why"] else "equal"
        counts[result["outcome"]] += 1
        slowest = max(slowest, result, key=lambda r: r["seconds"])
        if result["outcome"] not in GOOD:
            print(f"seed {result['seed']} ({result['file']}): {result['outcome']}\n{result['why']}", flush=True)
            if options.keep:
                options.keep.mkdir(parents=True, exist_ok=True)
                (options.keep / f"{result['seed']}.tflite").write_bytes(mutant(files, result["seed"])[0])
        if sum(counts.values()) % 5000 == 0:
            print(f"{sum(counts.values())} files, {time.monotonic() - begun:.0f} s: {dict(counts)}", flush=True)
    print(f"{len(files)} models, {sum(counts.values())} damaged files in {time.monotonic() - begun:.0f} s: {dict(counts)}")
    print(f"the slowest took {slowest['seconds']:.1f} s: seed {slowest.get('seed')} ({slowest.get('file')})")
    return 1 if set(counts) - set(GOOD) else 0


if __name__ == "__main__":
    sys.exit(main())
