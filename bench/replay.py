"""Process replay: does the compiler still make the same plans, machine code and instruction counts?

In: `record FILE` at one commit, and again at another; then `compare OLD NEW`. Out: per model or random network, core and
--optimize, what changed: the plan (order, stages, kernels, offsets), the arena, its estimated cycles, functions and constants,
instructions. At the end: how many plans need more RAM or over 1 % more cycles. Symbol names are left out of the digests and
functions are sorted, so that a new name changes nothing. The quick set is 20 real models and 40 random networks on two cores;
--whole adds every model, 200 networks, every core and every --optimize. Every tenth model is also planned with --weights file
and fetch. Exit code 1 if anything changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
QUICK_MODELS, QUICK_NETWORKS, QUICK_CORES = 20, 40, ("cortex-m4", "cortex-m0plus")
NETWORKS, LEVELS, IN_FILE = 200, ("balanced", "speed", "size"), ("file", "fetch")
SLOWER = 1.01  # times as many estimated cycles
RUN_MACS = 20_000_000  # beyond it instructions are counted in the whole set alone


def digest(data: bytes | str) -> str:
    """Return the first 64 bits of a SHA-256, in hexadecimal."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()[:16]


def code_digests(paths: list[Path]) -> list[str]:
    """Return a digest for each function and constant of object files, without names, sorted."""
    from elftools.elf.elffile import ELFFile

    digests = []
    for path in paths:
        with path.open("rb") as stream:
            elf = ELFFile(stream)
            moved = {s["sh_info"]: s for s in elf.iter_sections() if s["sh_type"] in ("SHT_REL", "SHT_RELA")}
            for index, section in enumerate(elf.iter_sections()):
                if section["sh_flags"] & 2 and section["sh_type"] == "SHT_PROGBITS" and section["sh_size"]:
                    places = (
                        [(r["r_offset"], r["r_info_type"]) for r in moved[index].iter_relocations()] if index in moved else []
                    )
                    digests.append(digest(section.data() + repr(places).encode()))
    return sorted(digests)


def replay(path: Path, core: str, optimize: str, *, count: bool) -> dict[str, Any]:
    """Plan, emit, compile and, to `count` instructions, run a model; `optimize` may also be one of IN_FILE, for --weights."""
    from tinyweave import api
    from tinyweave.codegen.weights_file import HEAD_BYTES
    from tinyweave.ir import CompileError, fingerprint
    from tinyweave.planning.kernels.cycles import plan_cycles
    from tinyweave.simulate import emulated
    from tinyweave.simulate.run import FOLDER
    from tinyweave.support import toolchain

    try:
        model = api.load(path)
        in_file = optimize in IN_FILE
        model = api.for_file(model) if in_file else model
        plan = api.plan(model, core, **({"weights": optimize} if in_file else {"optimize": optimize}))
    except CompileError as error:
        return {"refused": str(error)}
    stages = [(stage.ops, stage.tiles and [(t.ops, t.cols, t.rows, t.cached) for t in stage.tiles]) for stage in plan.stages]
    steps = repr((fingerprint(plan.graph), stages, plan.variants, sorted(plan.offsets.items())))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        source = api.emit_c(model, plan)
        for name, text in source.files.items():  # without the hash of the C, in which are its names
            (folder / name).write_text(re.sub(r"(uint32_t plan\[4\] = ){.*?}", r"\1{0}", text))
        compiler = emulated.COMPILERS[emulated.CORES[core].isa]()
        headers = ["-idirafter", str(FOLDER / "include")]
        files = toolchain.sources(folder, model.name)
        objects = toolchain.objects(compiler, emulated.flags_for(core, compiler), files, headers)
        cycles = plan_cycles(plan, core).cycles if core in api.COST_MODEL_CORES else None
        result = {"plan": digest(steps), "arena": dict(plan.arena), "cycles": cycles, "code": code_digests(objects)}
        if in_file:
            result["file"] = digest(source.data[f"{model.name}.weights"][HEAD_BYTES:])
        if count:
            result["instructions"] = api.profile_plan(model, plan, core).instructions
    return result | {"compiler": compiler.version}


def subjects(models: Path, *, whole: bool) -> Iterator[tuple[str, str, str]]:
    """Yield (model file or seed of a random network, core, --optimize)."""
    from tinyweave.simulate.cores import CORES

    files = sorted(models.glob("*.tflite"))
    if not whole:
        files = files[:: max(1, len(files) // QUICK_MODELS)][:QUICK_MODELS]
    names = [*map(str, files), *map(str, range(NETWORKS if whole else QUICK_NETWORKS))]
    for number, name in enumerate(names):
        levels = (LEVELS if whole else LEVELS[:1]) + (() if number % 10 else IN_FILE)
        yield from ((name, core, level) for core in (sorted(CORES) if whole else QUICK_CORES) for level in levels)


def record_one(name: str, pairs: list[list[str]], *, whole: bool) -> None:
    """Print a line of JSON for each core and level of a model."""
    sys.path.insert(0, str(ROOT / "tests"))
    from fuzz.generate import random_network

    from tinyweave import api
    from tinyweave.exporters.tflite import to_tflite
    from tinyweave.ir import CompileError
    from tinyweave.ops import macs_original

    with tempfile.TemporaryDirectory() as scratch:
        path = Path(name)
        if name.isdigit():
            path = Path(scratch) / f"network_{name}.tflite"
            path.write_bytes(to_tflite(random_network(int(name))))
        try:
            count = name.isdigit() or whole or macs_original(api.load(path).original) < RUN_MACS
        except CompileError:
            count = False
        for core, level in pairs:
            result = replay(path, core, level, count=count)
            print(json.dumps([f"{path.stem} {core} {level}", result]), flush=True)


def record(target: Path, models: Path, jobs: int, *, whole: bool) -> int:
    """Write the digests of all subjects, each model in a process of its own."""
    by_name: dict[str, list[list[str]]] = {}
    for name, core, level in subjects(models, whole=whole):
        by_name.setdefault(name, []).append([core, level])

    def one(name: str) -> tuple[list[Any], str]:
        command = [sys.executable, __file__, "one", name, json.dumps(by_name[name]), *(["--whole"] if whole else [])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return [json.loads(line) for line in done.stdout.splitlines()], done.stderr if done.returncode else ""

    results, failed = {}, 0
    with ThreadPoolExecutor(jobs) as pool:
        for name, (rows, error) in zip(by_name, pool.map(one, by_name), strict=True):
            results |= dict(rows)
            if error:
                failed += 1
                print(f"{name}: {' '.join(error[-300:].split())}", file=sys.stderr)
    target.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    print(f"{len(results)} digests of {len(by_name)} models written to {target}, {failed} models failed")
    return 1 if failed else 0


def compare(old: Path, new: Path) -> int:
    """Print what changed between two records."""
    before, after = (json.loads(path.read_text()) for path in (old, new))
    changed = 0
    for name in sorted({*before, *after}):
        a, b = before.get(name, {}), after.get(name, {})
        if a == b:
            continue
        changed += 1
        parts = []
        for part in sorted({*a, *b} - {"code"}):
            if a.get(part) != b.get(part):
                parts.append(f"{part} {a.get(part)} -> {b.get(part)}")
        removed, added = set(a.get("code", ())) - set(b.get("code", ())), set(b.get("code", ())) - set(a.get("code", ()))
        if removed or added:
            parts.append(f"{len(removed)} functions or constants became {len(added)}, of {len(b.get('code', ()))}")
        print(f"{name}: {'; '.join(parts) or 'functions stand there another number of times'}")
    pairs = {name: (before[name], after[name]) for name in sorted({*before} & {*after})}
    larger = [name for name, (a, b) in pairs.items() if sum(a.get("arena", {}).values()) < sum(b.get("arena", {}).values())]
    slower = [name for name, (a, b) in pairs.items() if (a.get("cycles") or 0) * SLOWER < (b.get("cycles") or 0)]
    print(f"{len(before)} and {len(after)} digests, {changed} changed")
    for what, names in (("more RAM", larger), (f"over {SLOWER - 1:.0%} more cycles", slower)):
        print(f"{what}: {len(names)}", *names, sep="\n  ")
    return 1 if changed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    recording = verbs.add_parser("record", help="write the digests of this commit")
    recording.add_argument("file", type=Path)
    recording.add_argument("--models", type=Path, default=ROOT.parent / "shared" / "models")
    recording.add_argument("--jobs", type=int, default=2)
    recording.add_argument("--whole", action="store_true", help="all models, 200 networks, all cores and levels")
    comparing = verbs.add_parser("compare", help="say what differs between two records")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    one = verbs.add_parser("one")
    one.add_argument("name")
    one.add_argument("pairs", type=json.loads)
    one.add_argument("--whole", action="store_true")
    options = parser.parse_args()
    if options.verb == "compare":
        return compare(options.old, options.new)
    if options.verb == "one":
        record_one(options.name, options.pairs, whole=options.whole)
        return 0
    return record(options.file, options.models, options.jobs, whole=options.whole)


if __name__ == "__main__":
    sys.exit(main())
