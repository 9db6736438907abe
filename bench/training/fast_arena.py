"""Is the arena of an architecture, without its graph, what the planner counts, and how long does it take? In: numbers.

Out: each difference, how many arenas that compute nothing again are above their lower bound, milliseconds of CPU time. Random
networks of small and large images, and of TinyNAS' spaces (about 70 ops), each planned with its input streamed or in RAM, half
of them with work done again. Times are of four spaces: cold, when nothing is known of any network; first, when this one is new,
but others of its space are known; again, when it is known; near, when one block of a known one is changed; again with 1.1 times
the work. Exit code 1 on a difference or when one of a hundred takes more than the limit although others of its space are known.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
import one_line  # noqa: F401

# isort: split
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from cases.archs import any_arch, graph_of, of_space, small_arch

from tinyweave.nas.arch import Arch
from tinyweave.nas.arena import arena, clear_caches
from tinyweave.planning import Request
from tinyweave.planning.planner import PlanSearch

LIMIT_MS = 5.0
SPACES = ((3, 160), (5, 144), (8, 112), (10, 224))  # width in tenths, resolution
KINDS = {"small": small_arch, "any": any_arch, "space": of_space}


def timed(arch: Arch, streamed_inputs: bool, overhead: float | None = None) -> tuple[int, float]:
    start = time.process_time()
    found = arena(arch, stream_inputs=streamed_inputs, max_mac_overhead=overhead)
    return found, 1000 * (time.process_time() - start)


def changed(arch: Arch, rng: random.Random) -> Arch:
    """Return the same network with another kernel in one block."""
    number = rng.randrange(len(arch.groups))
    group = arch.groups[number]
    index = rng.randrange(len(group.kernels))
    kernels = (
        *group.kernels[:index],
        rng.choice([k for k in (3, 5, 7) if k != group.kernels[index]]),
        *group.kernels[index + 1 :],
    )
    groups = (*arch.groups[:number], replace(group, kernels=kernels), *arch.groups[number + 1 :])
    return replace(arch, groups=groups)


def compared(kind: str, seeds: range) -> tuple[int, int]:
    """Return how many figures differ from the planner's, and how many arenas are above them."""
    wrong = above = 0
    for seed in seeds:
        rng = random.Random(seed)
        arch, streamed_inputs = KINDS[kind](rng), rng.random() < 0.5
        overhead = rng.choice((None, None, None, 1.02, 1.1, 2.0))
        choices = PlanSearch(graph_of(arch), Request(stream_inputs=streamed_inputs, max_mac_overhead=overhead))
        found = arena(arch, stream_inputs=streamed_inputs, max_mac_overhead=overhead)
        above += overhead is None and choices.plan("size", checked=False).gap > 0
        if found != choices.least_bytes:
            wrong += 1
            print(f"{kind} {seed}: {found}, the planner counts {choices.least_bytes}", flush=True)
    print(f"{kind:<6}{len(seeds):>6} networks, {wrong} differ, {above} arenas above their lower bound", flush=True)
    return wrong, above


def times(count: int) -> float:
    """Prints them; what 99 of 100 new networks of a known space stay within."""
    cold, first, again, near, twice = (list[float]() for _ in range(5))
    for number, (tenths, resolution) in enumerate(SPACES):
        archs = [of_space(random.Random(count * number + seed), tenths, resolution) for seed in range(count)]
        for arch in archs[: count // 10]:
            clear_caches()
            cold.append(timed(arch, True)[1])
        seen = [timed(arch, streamed_inputs)[1] for arch in archs for streamed_inputs in (True, False)]
        first += seen[count::2]
        again += [timed(arch, streamed_inputs)[1] for arch in archs for streamed_inputs in (True, False)]
        near += [timed(changed(arch, random.Random(seed)), True)[1] for seed, arch in enumerate(archs)]
        twice += [timed(arch, streamed_inputs, 1.1)[1] for arch in archs[: count // 4] for streamed_inputs in (True, False)]
    for name, found in (("cold", cold), ("first", first), ("again", again), ("near", near), ("F 1.1", twice)):
        found.sort()
        middle, late = found[len(found) // 2], found[len(found) * 99 // 100]
        print(f"{name:<6}{len(found):>6} plans, ms: median {middle:.2f}, 99 % within {late:.1f}, worst {found[-1]:.1f}")
    return first[len(first) * 99 // 100]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for kind, count in zip(KINDS, (1500, 450, 50), strict=True):
        parser.add_argument(f"--{kind}", type=int, default=count, help=f"networks to compare (default {count})")
    parser.add_argument("--timed", type=int, default=200, help="networks to time of each space (default 200)")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    late = times(options.timed) if options.timed else 0.0
    wrong = sum(compared(kind, range(options.first, options.first + getattr(options, kind)))[0] for kind in KINDS)
    return 1 if wrong or late > LIMIT_MS else 0


if __name__ == "__main__":
    sys.exit(main())
