"""Random networks under random plans: the emitted C of any valid plan gives the numpy reference's bytes on this machine.

In: how many networks (--count), from which seed (--first); with --fronts their plans are random points of their fronts, whose
arena is touched to its last byte. Out: the seeds that fail, with the reason; at the end how many plans there were and what they
did; exit code 1 when any failed. Each batch runs in a process of its own, so that a crash is a find. With --record it goes on
where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.pop(0)  # this folder, whose cases.py would hide tests/cases
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

BATCH = 25


def run_here(first: int, count: int, *, fronts: bool) -> dict:
    """The counts and failures of some seeds, in this process."""
    from fuzz.random_plans import failures, front_trials, trials

    from tinyweave.planning.place.relocation_ops import is_move

    tried, failed = failures(range(first, first + count), front_trials if fronts else trials)
    counts: Counter[str] = Counter(plans=len(tried), networks=count)
    for trial in tried:
        plan = trial.plan
        counts["ops"] += len(plan.graph.ops)
        counts["moves"] += sum(map(is_move, plan.graph.ops))
        counts["views"] += plan.variants.count("")
        counts["with outputs over operands"] += trial.overlaps > 0
        counts["overlaps"] += trial.overlaps
        counts["with several inputs"] += len(plan.graph.inputs) > 1
        counts["with several outputs"] += len(plan.graph.outputs) > 1
        counts["with state"] += bool(plan.graph.init)
        counts["fused stages"] += sum(stage.schedule is not None for stage in plan.stages)
        counts["tiles"] += sum(len(stage.tiles or ()) for stage in plan.stages)
        counts["with inputs by rows"] += bool(plan.streamed_inputs)
        counts["with outputs by rows"] += bool(plan.streamed_outputs)
        counts["with maps computed twice"] += bool(plan.channels_once)
    return {"counts": counts, "failed": failed}


def run_apart(first: int, count: int, *, fronts: bool) -> dict:
    """The same from a child process; where a signal ends that, seed by seed."""
    command = [sys.executable, __file__, "--here", "--first", str(first), "--count", str(count), *["--fronts"] * fronts]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return json.loads(done.stdout)
    if count == 1 or done.returncode > 0:
        said = " ".join(done.stderr[-400:].split())
        seeds = f"seeds {first} to {first + count - 1}"
        return {"counts": {"networks": count}, "failed": [f"{seeds}: exit code {done.returncode} {said}"]}
    parts = [run_apart(seed, 1, fronts=fronts) for seed in range(first, first + count)]
    total: Counter[str] = sum((Counter(part["counts"]) for part in parts), Counter())
    return {"counts": total, "failed": [line for part in parts for line in part["failed"]]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="networks")
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--fronts", action="store_true", help="random points of fronts")
    parser.add_argument("--record", type=Path, metavar="FILE", help="batches that are done, to go on from; new ones are added")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(json.dumps(run_here(options.first, options.count, fronts=options.fronts)))
        return 0
    begun, end = time.monotonic(), options.first + options.count
    counts: Counter[str] = Counter()
    failed = 0
    lines = options.record.read_text().splitlines() if options.record and options.record.exists() else []
    known = {tuple(batch): done for batch, done in map(json.loads, lines)}

    def of(batch: tuple[int, int, bool]) -> dict:
        if batch not in known:
            known[batch] = run_apart(*batch[:2], fronts=batch[2])
            if options.record:
                with options.record.open("a") as file:
                    file.write(json.dumps([batch, known[batch]]) + "\n")
        return known[batch]

    with ThreadPoolExecutor(options.jobs) as pool:
        batches = [(first, min(BATCH, end - first), options.fronts) for first in range(options.first, end, BATCH)]
        for done in pool.map(of, batches):
            counts.update(done["counts"])
            failed += len(done["failed"])
            print(*done["failed"], sep="\n", end="\n" if done["failed"] else "", flush=True)
    print(f"{counts.pop('networks', 0):,} networks, {counts.pop('plans', 0):,} plans, seeds {options.first} to {end - 1}")
    print(f"{time.monotonic() - begun:.0f} s; " + ", ".join(f"{count:,} {what}" for what, count in counts.items()))
    print(f"{failed} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
