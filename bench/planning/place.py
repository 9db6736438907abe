"""The table of placements: how small do greedy and exact search make the arena, in what time?

In: MiniMalloc's instances (--instances: CSV files id,lower,upper,size; the capacity in the name), buffers like a network's.
Out: one row per instance: greedy; does it fit the capacity; the smallest arena found, the bound, proved or not; seconds of one
core. Exit code 1 when an instance does not fit its capacity.
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
import time
from pathlib import Path

from tinyweave.planning.place.place import arena_bytes, greedy, place
from tinyweave.planning.plan import Buffer

ROOT = Path(__file__).resolve().parents[2]


def instance(path: Path) -> list[Buffer]:
    """The buffers of one file."""
    with path.open(newline="") as file:
        rows = [{key: int(value) for key, value in row.items()} for row in csv.DictReader(file)]
    return [Buffer(str(row["id"]), row["size"], row["lower"], row["upper"], align=1) for row in rows]


def greedy_ms(buffers: list[Buffer]) -> float:
    """The quickest of several runs: other programs only make it slower."""
    times = []
    for _ in range(20):
        start = time.process_time()
        greedy(buffers)
        times.append(time.process_time() - start)
    return min(times) * 1000


def network_like(count: int, branches: int, seed: int = 0) -> list[Buffer]:
    """Buffers of a chain of `count` layers, each output read by up to `branches` of the next ones."""
    rng = random.Random(seed)
    return [Buffer(f"b{i}", rng.randint(50, 5000) * 4, i, i + 1 + rng.randint(1, branches)) for i in range(count)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=Path, default=ROOT.parent / "shared" / "nets" / "minimalloc")
    parser.add_argument("--tries", type=int, default=100_000_000, help="to fit the capacity: the most placements of one buffer")
    parser.add_argument("--more-tries", type=int, default=10_000_000, help="the same for the smallest arena")
    options = parser.parse_args()
    for branches in (1, 4):
        buffers = network_like(70, branches)
        print(f"greedy, 70 buffers, up to {branches + 1} alive: {greedy_ms(buffers):.2f} ms")
    paths = sorted(options.instances.glob("*.csv"))
    if not paths:
        print(f"no instances in {options.instances}; name their folder with --instances", file=sys.stderr)
        return 2
    place(network_like(70, 9), tries=100_000)  # builds the C, which is no part of the times
    print("| instance | buffers | greedy | ms | capacity | fits | s | best | lower bound | proved | s |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    unfit = 0
    for path in paths:
        name, capacity = path.stem.split(".")
        buffers = instance(path)
        simple = arena_bytes(buffers, greedy(buffers))
        start = time.process_time()
        fitting = place(buffers, tries=options.tries, enough=int(capacity))
        middle = time.process_time()
        best = place(buffers, tries=options.more_tries)
        end = time.process_time()
        unfit += fitting.bytes > int(capacity)
        row = (name, len(buffers), f"{simple:,}", f"{greedy_ms(buffers):.1f}", f"{int(capacity):,}")
        row += ("yes" if fitting.bytes <= int(capacity) else "no", f"{middle - start:.2f}")
        row += (f"{best.bytes:,}", f"{best.lower_bound:,}", "yes" if best.optimal else "no", f"{end - middle:.2f}")
        print("|", " | ".join(map(str, row)), "|", flush=True)
    return 1 if unfit else 0


if __name__ == "__main__":
    sys.exit(main())
