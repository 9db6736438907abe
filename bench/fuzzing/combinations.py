"""Real models under random options: does the C give the reference's bytes whatever was asked for?

In: a folder of .tflite files (--models) and a seed. Each model below 20 million MACs is verified under 20 random combinations
of schedule, optimisation, streaming, overhead, edges, layout and core, each larger one under 4; uint8 models come first. A
combination whose streams the model refuses runs without them. Out: a line for each combination that differs or crashes, then
the counts. Results are appended to --record and not computed again, so that an interrupted run resumes. Exit code 1 when a byte
differs, an arena is not touched as claimed, or a run crashes.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tinyweave.simulate.cores import CORES

ROOT = Path(__file__).resolve().parents[2]
SMALL_MACS, MANY, FEW = 20_000_000, 20, 4
SCHEDULES = ("best", "best", "best", "unfused", "layer", "patch", "msf")
FAILED = ("DIFFERS", "CRASHED")


def options_of(seed: int, model: str, number: int) -> dict[str, Any]:
    """Draw the options of one combination; the seed, the model and the number name it."""
    rng = random.Random(f"{seed} {model} {number}")
    schedule = rng.choice(SCHEDULES)
    by_rows = schedule not in ("unfused", "layer")  # only these have fused stages
    return {
        "schedule": schedule,
        "optimize": rng.choice(("balanced", "speed", "size", "flash")),
        "stream_inputs": by_rows and rng.random() < 0.4,
        "stream_outputs": by_rows and rng.random() < 0.3,
        "max_mac_overhead": rng.choice((None, 1.05, 1.1, 1.5, 2.0)) if by_rows else None,
        "io": rng.choice(("model", "int8")),
        "layout": rng.choice(("model", "nhwc")),
        "core": rng.choice(sorted(CORES)),
    }


def verify(path: Path, options: dict[str, Any], seed: int) -> dict[str, Any]:
    """Verify a model under one combination; a refusal is a result, too."""
    from tinyweave import api
    from tinyweave.ir import CompileError

    chosen = dict(options)
    core = chosen.pop("core")
    try:
        model = api.load(path, io=chosen.pop("io"), layout=chosen.pop("layout"))
        try:
            plan = api.plan(model, core, **chosen)
        except CompileError:
            if not (options["stream_inputs"] or options["stream_outputs"]):
                raise
            plan = api.plan(model, core, **chosen | {"stream_inputs": False, "stream_outputs": False})
        state = any(tensor.role == "state" for tensor in model.graph.tensors.values())
        result = api.verify_plan(
            model, plan, api.ProofOptions(count=2 if state else 1, seed=seed), core=core
        )  # a run of an emulator is what costs
    except CompileError as error:
        return {"verdict": "refused", "why": str(error)}
    why = result.first_difference or ("" if result.ok else f"claims {dict(plan.arena)}, touches {dict(result.touched)}")
    return {"verdict": "equal" if result.ok else "DIFFERS", "why": why, "reference": result.reference}


def verify_one(path: Path, seed: int, numbers: list[int]) -> None:
    """Print a line of JSON for each combination, as soon as it is known."""
    for number in numbers:
        start, options = time.process_time(), options_of(seed, path.stem, number)
        row = {"model": path.stem, "number": number, "options": options} | verify(path, options, seed + number)
        print(json.dumps(row | {"seconds": round(time.process_time() - start, 1)}), flush=True)


def facts(path: Path) -> tuple[bool, int] | None:
    """Return whether a model's first input is uint8 and its MACs; None for one that is refused."""
    from tinyweave import api
    from tinyweave.ir import CompileError
    from tinyweave.ops import macs_original

    try:
        graph = api.load(path).original
    except CompileError:
        return None
    return graph.tensors[graph.inputs[0]].dtype == "uint8", macs_original(graph)


def rows_of(path: Path, seed: int, numbers: list[int], limit_s: int) -> Iterator[dict[str, Any]]:
    """Verify a model in processes of their own; one that dies is started again behind the combination that killed it."""
    waiting = list(numbers)
    while waiting:
        command = [sys.executable, __file__, "--one", str(path), "--seed", str(seed), "--numbers", *map(str, waiting)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
            lines, why = done.stdout.splitlines(), " ".join(done.stderr[-400:].split())
        except subprocess.TimeoutExpired as error:
            output = error.stdout or b""
            lines, why = (output.decode() if isinstance(output, bytes) else output).splitlines(), f"took over {limit_s} s"
        for line in lines:
            row = json.loads(line)
            waiting.remove(row["number"])
            yield row
        if waiting:
            number = waiting.pop(0)
            options = options_of(seed, path.stem, number)
            yield {"model": path.stem, "number": number, "options": options, "verdict": "CRASHED", "why": why}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only models whose name contains one of these")
    parser.add_argument("--models", type=Path, default=ROOT.parent / "shared" / "models")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="models verified at a time")
    parser.add_argument("--record", type=Path, default=ROOT / "out" / "combinations.jsonl", help="results, as lines of JSON")
    parser.add_argument("--limit-s", type=int, default=3600, help="seconds for all combinations of a model")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--numbers", type=int, nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        verify_one(options.one, options.seed, options.numbers)
        return 0
    files = [f for f in sorted(options.models.glob("*.tflite")) if not options.names or any(n in f.stem for n in options.names)]
    if not files:
        print(f"no models in {options.models}", file=sys.stderr)
        return 2
    known = {file: facts(file) for file in files}
    models = sorted(((not fact[0], fact[1], file) for file, fact in known.items() if fact), key=lambda model: model[:2])
    print(f"seed {options.seed}: {len(models)} models, {len(files) - len(models)} refused", flush=True)
    options.record.parent.mkdir(parents=True, exist_ok=True)
    options.record.touch()
    rows = [row for row in map(json.loads, options.record.read_text().splitlines()) if row["seed"] == options.seed]
    done = {(row["model"], row["number"]) for row in rows}
    work = []
    for _, macs, file in models:
        numbers = range(MANY if macs < SMALL_MACS else FEW)
        work.append((file, [number for number in numbers if (file.stem, number) not in done]))

    def run(job: tuple[Path, list[int]]) -> list[dict[str, Any]]:
        found = []
        for row in rows_of(job[0], options.seed, job[1], options.limit_s):
            found.append(row | {"seed": options.seed})
            with options.record.open("a") as record:
                record.write(json.dumps(found[-1]) + "\n")
        return found

    with ThreadPoolExecutor(options.jobs) as pool:
        for (file, numbers), results in zip(work, pool.map(run, work), strict=True):
            if numbers:
                print(f"{file.stem}: {dict(Counter(row['verdict'] for row in results))}", flush=True)
            rows += results
    wanted = {file.stem for file in files}
    for row in (row for row in rows if row["verdict"] in FAILED and row["model"] in wanted):
        print(f"{row['model']} number {row['number']} {row['verdict']}: {row['why']}\n    {row['options']}")
    counts = Counter(row["verdict"] for row in rows if row["model"] in wanted)
    print(", ".join(f"{counts[verdict]:,} {verdict}" for verdict in ("equal", "refused", *FAILED)))
    return 1 if any(counts[verdict] for verdict in FAILED) else 0


if __name__ == "__main__":
    sys.exit(main())
