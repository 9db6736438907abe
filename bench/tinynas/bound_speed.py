"""How long does the bound on the RAM of an architecture take: by chain.c, without a graph, and by the planner's own search?

Out: for each search space the median CPU time in ms per sampled network, and how many networks `arena` refuses. `arena` uses
chain.c, except for squeeze-and-excitation, for which it plans. The planner's time is that of the graph, of its plan spaces, of
the bound on them, and of `solve` on one problem.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections import defaultdict

from tinynas.arch import blocks
from tinynas.ram import arena
from tinynas.space import SearchSpace, arch_of, keywords, mobilenet_v3, sample, small_images
from tinyweave.ir import CompileError
from tinyweave.planning import PlanSearch, Request, solve
from tinyweave.planning.search.problem import NEVER

SPACES = {"small_images": small_images((32,)), "keywords": keywords(), "mobilenet_v3": mobilenet_v3()}


def measured(space: SearchSpace, count: int, seed: int) -> tuple[dict[str, list[float]], int]:
    """Return the ms of each part, per network, and how many networks `arena` refuses; raise AssertionError if bounds differ."""
    rng, taken, refused = random.Random(seed), defaultdict[str, list[float]](list), 0

    def lap(part: str) -> None:
        nonlocal before
        now = time.process_time()
        taken[part].append(1e3 * (now - before))
        before = time.process_time()

    for _ in range(count):
        arch = arch_of(space, sample(space, rng), 10)
        before, bound = time.process_time(), None
        try:
            bound = arena.arena(arch)
            lap("arena")
        except CompileError:
            refused += 1
        before = time.process_time()
        graph = arena.graph_of(blocks(arch), arch.classes, arch.pooling)
        lap("graph")
        search = PlanSearch(graph, Request())
        spaces = search.spaces()
        lap("plan spaces")
        least = search.least_bytes
        lap("bound")
        solve(spaces[-1].search.problem, ("size", NEVER, NEVER))
        lap("solve")
        assert bound is None or arch.pooling != "mean" or bound == least, (bound, least)
    return taken, refused


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=16, help="networks of each space")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for name, space in SPACES.items():
        taken, refused = measured(space, options.count, options.seed)
        parts = ", ".join(f"{part} {statistics.median(each):.1f}" for part, each in taken.items())
        print(f"{name}: {parts} ms; arena refuses {refused} of {options.count}", flush=True)


if __name__ == "__main__":
    main()
