"""Edited plan files: each is refused in one line, or the C that is emitted from it gives the reference's bytes.

In: plans of six networks, as files (tests/planning/edited_plans.py). In `swaps`, every kernel of the table takes the place of
the kernel of each op; in `edits`, a file has one to three random edits (--edits, by --seed). An accepted file's C runs on
this machine with sanitizers and on an emulated core, and each output byte is compared; C that equals the C of the unedited
plan is not run again. Out: a row per plan, and each find: wrong bytes, an access outside, C that is not compiled, or an error
that is no CompileError. Exit code 1 if there is a find.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.pop(0)  # this folder, whose cases.py would hide tests/cases
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

SHARES = 2  # tasks per plan


def tried(name: str, share: int, edits_per_plan: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Return how many files of a plan were refused, accepted and run, and the finds, of every SHARES-th file."""
    from planning import edited_plans as cases

    from tinyweave.codegen import Origin, emit

    graph, made = cases.PLANS[name]()
    origin, counts, finds = Origin("edited.tflite", "0" * 64), Counter[str](), list[str]()
    usual = emit(made, "edited", origin).files
    ways = {"swaps": cases.swaps(made), "edits": cases.edits(made, edits_per_plan, seed)}
    for way, number, (about, text) in ((way, *each) for way, files in ways.items() for each in enumerate(files)):
        if number % SHARES != share:
            continue
        counts[way] += 1
        try:
            found = cases.outcome(graph, text)
            if isinstance(found, str):
                continue
            counts[f"{way} accepted"] += 1
            if emit(found, "edited", origin).files == usual:
                continue
            counts[f"{way} run"] += 1
            wrong = cases.fault_on(found, cases.core_of(found))
        except Exception:
            wrong = traceback.format_exc()
        if wrong:
            finds.append(f"{name}, {about}: {wrong}")
    return counts, finds


def main() -> int:
    """Print the table and the finds; return the exit code."""
    from planning.edited_plans import PLANS

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edits", type=int, default=200, help="random edits per plan")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--only", nargs="*", default=list(PLANS), choices=list(PLANS), help="names of plans")
    options = parser.parse_args()
    failed = 0
    columns = [f"{way}{what}" for way in ("swaps", "edits") for what in ("", " accepted", " run")]
    print(f"{'plan':10}", *(f"{column:>14}" for column in columns), f"{'finds':>6}", flush=True)
    with ProcessPoolExecutor(options.jobs) as pool:
        for name in options.only:
            tasks = [pool.submit(tried, name, share, options.edits, options.seed) for share in range(SHARES)]
            counts, finds = (
                sum((task.result()[0] for task in tasks), Counter()),
                [x for task in tasks for x in task.result()[1]],
            )
            print(
                f"{name:10}", *(f"{counts[column]:14,}" for column in columns), f"{len(finds):6}", *finds, sep=" ", flush=True
            )
            failed += len(finds)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
