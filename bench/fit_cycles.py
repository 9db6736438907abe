"""Constants of the kernels in tinyweave/cost/layer_cycles.json, and how far off the cycles are that follow from them.

In: a folder of .tflite files (--models). Each runs layer by layer on the emulated cores; its cycles are the estimates of
tinyweave/cost/cycles.py. Out: the constants (--write), and per core how far off the sum over a network is, when the constants
are fitted without that network and others much like it: exit code 1 when that is more than 15 % for more than one in ten.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np

from tinyweave import api
from tinyweave.cost.cycles import TIMINGS
from tinyweave.cost.layer_cycles import CONSTANTS, counts
from tinyweave.cost.macs import macs
from tinyweave.ir import CompileError
from tinyweave.simulate import compare, emulated

ROOT = Path(__file__).resolve().parents[1]
FOLDS = 6
GOAL = 0.15
Row = tuple[str, str, tuple[float, ...], int, str]  # network, constants, counts, cycles, of which plan


def measured(path: Path, core: str) -> list[Row]:
    """A row per layer of a network run layer by layer, on the fastest kernels, and on those for all cores where they differ."""
    model = api.load(path, io="int8")
    sample, sizes = compare.pack(model.graph, api.samples(model, 1, 0)[0]), compare.output_bytes(model.graph)
    rows: list[Row] = []
    before: tuple[str, ...] = ()
    for optimize in ("speed", "size"):
        plan = api.plan(model, "unfused", optimize=optimize, core=core)
        with tempfile.TemporaryDirectory() as folder:
            api.write(api.source(model, plan), Path(folder))
            firmware = emulated.build(Path(folder), model.name, core, trace=True)
            run = emulated.invoke(firmware, plan.arena, sample, sizes)
        found = emulated.cycles(core, run) or []
        for stage, cycles in zip(plan.stages, found, strict=False):
            (index,) = stage.ops
            variant = plan.variants[index]
            if variant and variant not in before:
                key, did = counts(plan.graph, plan.graph.ops[index], variant)
                rows.append((path.stem, key, did, cycles.likely, optimize))
        before = plan.variants
    return rows


def fitted(rows: list[Row]) -> dict[str, list[float]]:
    """Constants of no less than 0, with the least sum of squares of errors that count by the layer's size, but not in full."""
    by_key: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_key[row[1]].append(row)
    return {key: _least_squares(group) for key, group in sorted(by_key.items())}


def _least_squares(rows: list[Row]) -> list[float]:
    did, took = (np.array([row[i] for row in rows], float) for i in (2, 3))
    weight = 1 / np.maximum(took, 50) ** 0.8
    kept = list(range(did.shape[1]))
    while True:
        found = np.linalg.lstsq(did[:, kept] * weight[:, None], took * weight, rcond=None)[0]
        if len(kept) == 1 or (found >= 0).all():
            break
        kept.pop(int(np.argmin(found * did[:, kept].max(axis=0))))
    constants = np.zeros(did.shape[1])
    constants[kept] = np.maximum(found, 0)
    return [float(f"{value:.4g}") for value in constants]


def foreseen(rows: list[Row]) -> dict[str, tuple[float, int, float]]:
    """Per network: cycles foreseen by constants that were fitted without it, cycles, share of the layers that these know."""
    fold = {name: int(hashlib.md5(name.split("__")[-1][:12].encode()).hexdigest(), 16) % FOLDS for name, *_ in rows}
    total: dict[str, list[float]] = defaultdict(lambda: [0.0, 0, 0])
    for number in range(FOLDS):
        known = fitted([row for row in rows if fold[row[0]] != number])
        for name, key, did, took, optimize in (row for row in rows if fold[row[0]] == number):
            name = name if optimize == "speed" else f"{name}, size"
            total[name][1] += took
            if key in known:
                total[name][0] += float(np.dot(known[key], did))
                total[name][2] += took
    return {name: (guess, int(took), seen / took) for name, (guess, took, seen) in total.items() if took}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only models whose name contains one of these")
    parser.add_argument("--models", type=Path, default=ROOT.parent / "shared" / "models")
    parser.add_argument("--cores", default=",".join(TIMINGS), help="comma-separated")
    parser.add_argument("--largest", type=int, default=25_000_000, help="leave out networks of more multiply-accumulates")
    parser.add_argument("--write", action="store_true", help="write those of these cores to tinyweave/cost/layer_cycles.json")
    options = parser.parse_args()
    constants: dict[str, dict[str, list[float]]] = {}
    failed = False
    for core in options.cores.split(","):
        rows: list[Row] = []
        for path in sorted(options.models.glob("*.tflite")):
            if options.names and not any(part in path.stem for part in options.names):
                continue
            try:
                if macs(api.load(path).graph) <= options.largest:
                    rows += measured(path, core)
            except CompileError:
                continue
        constants[core] = fitted(rows)
        networks = foreseen(rows)
        off = {name: guess / took - 1 for name, (guess, took, seen) in networks.items() if seen > 0.99}
        print(f"{core}: {len(rows)} layers of {len(networks)} networks, {len(networks) - len(off)} with kernels of their own")
        far = sorted(((name, part) for name, part in off.items() if abs(part) > GOAL), key=lambda item: -abs(item[1]))
        median = float(np.median([abs(part) for part in off.values()] or [0.0]))
        print(f"  off by {median:.1%} in the median; {len(off) - len(far)} of {len(off)} by at most {GOAL:.0%}, the others:")
        for name, part in far:
            print(f"    {part:+.1%} {name}, {networks[name][1]:,} cycles")
        sys.stdout.flush()
        failed |= len(far) > len(off) / 10
    if options.write:
        CONSTANTS.write_text(json.dumps(json.loads(CONSTANTS.read_text()) | constants, indent=1) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
