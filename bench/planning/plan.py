"""How long does planning take? In: generated networks of about 100 ops. Out: a row per network: ops, the arena and the CPU time
of the layer plan, of the fast form and of the exact one, and the exact one's gap; at the end the slowest of each.

Cells of NASNet, AmoebaNet and DARTS, RandWire, Inception, and networks of random ops, as the tests have them. CPU time of one
process, since other work on the machine does not change it. Exit code 1 when one takes longer than the limits.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from cases.graphs import AMOEBANET, DARTS, NASNET, cells, inception, randwire
from fuzz.generate import random_network

from tinyweave.ir import Graph
from tinyweave.planning import Plan, Request, plan

FAST_MS, EXACT_MS = 100, 5000


def networks() -> Iterator[tuple[str, Graph]]:
    """Name and graph; all have 90 to 170 ops."""
    for name, genotype in (("nasnet", NASNET), ("amoebanet", AMOEBANET), ("darts", DARTS)):
        yield name, cells(name, genotype, side=96, channels=16, normal=1)
    for seed in range(4):
        yield f"randwire_{seed}", randwire(seed, 96, 16, nodes=9)
    yield "inception", inception(3, 4, 2, 96)
    for seed in range(8):
        yield f"random_{seed}", random_network(seed, 100)


FORMS = (Request("layer"), Request(fast=True), Request())


def timed(graph: Graph, form: Request) -> tuple[Plan, float]:
    """The plan in this form, and the milliseconds of CPU time that it took."""
    begun = time.process_time()
    made = plan(graph, form)
    return made, 1000 * (time.process_time() - begun)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only networks whose name contains one of these")
    options = parser.parse_args()
    columns = ("ops", "layer", "ms", "fast", "ms", "exact", "ms", "gap")
    print(f"{'network':<14}" + "".join(f"{name:>11}" for name in columns))
    rows = []
    plan(randwire(9, 96, 16, nodes=9))  # what is built or loaded once
    for name, graph in networks():
        if options.names and not any(wanted in name for wanted in options.names):
            continue
        made = [timed(graph, form) for form in FORMS]
        rows.append([ms for _, ms in made])
        figures = "".join(f"{sum(p.arena.values()):>11,}{ms:>11,.0f}" for p, ms in made)
        print(f"{name:<14}{len(graph.ops):>11}{figures}{made[-1][0].gap:>11,}", flush=True)
    if not rows:
        print("no network has such a name", file=sys.stderr)
        return 2
    _, fast, exact = (max(times) for times in zip(*rows, strict=True))
    print(f"slowest: fast form {fast:,.0f} ms (limit {FAST_MS}), exact form {exact:,.0f} ms (limit {EXACT_MS})")
    return 1 if fast > FAST_MS or exact > EXACT_MS else 0


if __name__ == "__main__":
    sys.exit(main())
