"""Files that broke something: what does each command make of them?

In: a folder (--cases) of folders of models: networks rebuilt from public bug threads, damaged and unusual files, and models
of others. Each file goes through plan, compile, verify and, if it is small, deploy; a float model is refused by them, so it
is also made int8 with random samples and verified. Each command runs in a process of its own with limits on time and memory.
Out: a table with a row per file: its outcome, exit code and message. The outcome is the worst one of the commands: equal,
refused (exit code 2 and one line), disagree (one command refuses what another one takes), warning (an equal or refused file
on whose way Python or NumPy printed a warning), differs, late, or traceback (also exit code 70 or a signal). Exit code 1 if a
file is neither equal nor refused.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
import one_line

# isort: split
import tinyweave as tw
from tinyweave import cli
from tinyweave.ir import CompileError

ROOT = Path(__file__).resolve().parents[2]
MODELS = (".tflite", ".onnx", ".pt2")
VERIFY_FLOAT = "verify float"  # a command of this script only: make a float model int8, and verify that
FLOAT = "it is a float model"  # begins the message that refuses one
SAMPLES = 8  # random samples that calibrate a float model
MEMORY_BYTES = 16 << 30  # of addresses; LiteRT and the emulator reserve several GiB
SMALL_FILE = 20_000  # bytes: what is deployed, too
OUTCOMES = ("equal", "refused", "disagree", "warning", "differs", "late", "traceback")  # the best one first
RIGHT = ("equal", "refused")


class Ran(NamedTuple):
    """The result of one command on a file."""

    outcome: str  # one of OUTCOMES
    code: int  # exit code
    message: str


def run(arguments: list[str], limit_s: float) -> Ran:
    """Run one command of tinyweave, or VERIFY_FLOAT, in a process of its own within a limit on time."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        child = multiprocessing.get_context("fork").Process(target=_command, args=(arguments, output.fileno(), errors.fileno()))
        child.start()
        child.join(limit_s)
        if child.is_alive():
            child.kill()
            child.join()
            return Ran("late", 124, f"{arguments[0]} took more than {limit_s:g} s")
        said = []
        for file in (output, errors):
            file.seek(0)
            said.append(file.read().decode(errors="replace"))
    return judged(child.exitcode or 0, *said)


def _command(arguments: list[str], output: int, errors: int) -> None:
    """Run a command with standard output and errors in two files, and exit with its code."""
    os.dup2(output, 1)
    os.dup2(errors, 2)
    for name, number in (("stdout", 1), ("stderr", 2)):
        setattr(sys, name, os.fdopen(number, "w", closefd=False))
    code = verify_float(Path(arguments[1])) if arguments[0] == VERIFY_FLOAT else cli.main(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def judged(code: int, output: str, errors: str) -> Ran:
    """Return the outcome of a command by its exit code and by what it printed."""
    said = [line.strip() for line in errors.splitlines() if line.strip()]
    last = said[-1] if said else ""
    if "Traceback" in errors or code not in (0, 1, 2):
        return Ran("traceback", code, next((line for line in reversed(said) if not line.startswith("tinyweave:")), last))
    if warnings := [line for line in said if "Warning" in line]:
        return Ran("warning", code, warnings[0])
    if code == 2:
        one_line = len(said) == 1 and said[0].startswith("tinyweave: ")
        return Ran("refused" if one_line else "traceback", code, last.removeprefix("tinyweave: "))
    verdicts = [line.strip() for line in output.splitlines() if "verified" in line or "DIFFERS" in line or "WRONG" in line]
    wrong = code == 1 or any("DIFFERS" in line or "WRONG" in line for line in verdicts)
    beside = [line.strip() for line in output.splitlines() if line.strip().startswith("not compared with LiteRT")]
    return Ran("differs" if wrong else "equal", code, "; ".join([*verdicts[:1], *beside]))


def verify_float(path: Path) -> int:
    """Quantise a float model with random samples, verify it, and print the verdict; return the exit code, as `verify` does."""
    rng = np.random.default_rng(0)
    try:
        graph = tw.load(path).graph
        inputs = {name: graph.tensors[name] for name in graph.inputs}
        samples = {
            name: rng.standard_normal((SAMPLES, *tensor.shape)).astype(np.float32)
            if tensor.dtype == "float32"
            else rng.integers(0, 2, (SAMPLES, *tensor.shape)).astype(tensor.dtype)
            for name, tensor in inputs.items()
        }
        verdict = tw.verify(tw.quantize(path, samples if len(samples) > 1 else next(iter(samples.values()))).model)
    except CompileError as error:
        print(f"tinyweave: {' '.join(str(error).split())}", file=sys.stderr)
        return one_line.BAD_INPUT
    print(f"{'verified' if verdict.ok else 'DIFFERS'}: made int8, compared with {verdict.reference}")
    return 0 if verdict.ok else 1


def tried(path: Path, limit_s: float) -> Ran:
    """Return the worst that the commands make of a file; of equal outcomes that of verify."""
    with tempfile.TemporaryDirectory(prefix="tinyweave-cases-") as folder:
        ran = [
            run(["verify", str(path)], limit_s),
            run(["plan", str(path)], limit_s),
            run(["compile", str(path), "-o", f"{folder}/compiled"], limit_s),
        ]
        if path.stat().st_size <= SMALL_FILE:
            ran.append(run(["deploy", str(path), "-o", f"{folder}/deployed"], limit_s))
        left = [name for name in os.listdir(folder) if all(each.code == 2 for each in ran)]
        if any(each.message.startswith(FLOAT) for each in ran):
            ran = [run([VERIFY_FLOAT, str(path)], limit_s)]
    worst = max(ran, key=lambda each: OUTCOMES.index(each.outcome))
    if worst.outcome in RIGHT and len({each.code for each in ran}) > 1:
        return Ran("disagree", worst.code, worst.message)
    if left:
        return Ran("disagree", worst.code, f"refused, and left a folder behind: {', '.join(left)}")
    return worst._replace(message=worst.message.replace(f"{path.parent}/", ""))


def main() -> int:
    """Print the table of all files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only files whose names contain one of these")
    parser.add_argument("--cases", type=Path, default=ROOT.parent / "shared" / "cases")
    parser.add_argument("--limit-s", type=float, default=180, help="seconds of one command")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    files = sorted(path for path in options.cases.rglob("*") if path.suffix in MODELS)
    files = [path for path in files if not options.names or any(name in path.name for name in options.names)]
    if not files:
        parser.error(f"no such models in {options.cases}")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))  # what is started inherits it
    counts = Counter[str]()
    print(f"{'file':60}  {'outcome':9}  code  message")
    os.environ["COLUMNS"] = "2000"
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("fork")) as pool:
        for path, found in zip(files, pool.map(tried, files, repeat(options.limit_s)), strict=True):
            counts[found.outcome] += 1
            print(f"{path.relative_to(options.cases)!s:60}  {found.outcome:9}  {found.code:4}  {found.message}", flush=True)
    print(", ".join(f"{counts[outcome]:,} {outcome}" for outcome in OUTCOMES))
    return 1 if any(counts[outcome] for outcome in OUTCOMES if outcome not in RIGHT) else 0


if __name__ == "__main__":
    sys.exit(main())
