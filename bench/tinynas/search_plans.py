"""What it brings that the plan is a part of the search: the schedule, the image by rows, work done again, windows in the head.

In: RAM limits. Out: a line per limit and kind of plan: the multiply-accumulates of the best network that evolution finds, and
how often the best fifth of all networks has each plan. The planner alone decides what fits. No network is trained: in the place
of accuracy stand multiply-accumulates, as in stage one of TinyNAS, so that what windows in the head are worth for accuracy is
not in these figures; how much they save is.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import log10
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
import one_line  # noqa: F401

# isort: split
from tinynas.arch import Arch, PlanGene, macs
from tinynas.costs import Target
from tinynas.evolution import Evaluated, Evaluator, Evolution, evolve
from tinynas.space import SearchSpace, small_images, with_plan_genes
from tinyweave import api
from tinyweave.devices import find
from tinyweave.ir import CompileError

REST, CODE = 1024, 20_000  # bytes beside the arena and the constants
CLASSES = 10


def measure(networks: Sequence[Arch]) -> Iterator[tuple[int, float]]:
    """Yield the logarithm of each network's multiply-accumulates, between 0 and 1 as an accuracy is."""
    yield from ((number, log10(macs(arch)) / 10) for number, arch in enumerate(networks))


def spaces(side: int, overhead: float) -> dict[str, SearchSpace]:
    """Return the space with one kind of plan, with and without windows in the head as a gene, and with all of them."""
    space = small_images((side,))
    one = {
        "layers apart": (PlanGene("unfused"),),
        "best plan": (PlanGene(),),
        "image by rows": (PlanGene("best", True),),
        "and work again": (PlanGene("best", True, overhead),),
    }
    kinds = {name: replace(space, plans=plans) for name, plans in one.items()}
    kinds["and the head"] = replace(space, plans=one["and work again"], redistributable=True)
    kinds["all searched"] = with_plan_genes(space, stream_inputs=True, max_mac_overhead=overhead)
    return kinds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="stm32f412")
    parser.add_argument("--ram", nargs="+", default=["6k", "8k", "12k"])
    parser.add_argument("--flash", default="128k")
    parser.add_argument("--latency-ms", type=float)
    parser.add_argument("--side", type=int, default=48)
    parser.add_argument("--overhead", type=float, default=1.3)
    parser.add_argument("--population", type=int, default=16)
    parser.add_argument("--generations", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=1)
    args = parser.parse_args()
    board, half = find(args.device), args.population // 2
    settings = Evolution(args.population, max(2, args.population // 5), half, half, 0.1, args.generations)
    for ram in args.ram:
        limits = api.limits_of(board, ram=ram, flash=args.flash, latency_ms=args.latency_ms)
        for name, space in spaces(args.side, args.overhead).items():
            for seed in range(args.seeds):
                begin, target = time.process_time(), Target(board, limits, rest=REST, code=CODE)
                try:
                    found = evolve(space, target, CLASSES, settings, Evaluator(measure), seed=seed)
                except CompileError as error:
                    print(f"{ram} {name}: {error.why}", flush=True)
                    break
                print(f"{ram} {name}, seed {seed}: {told(found)}; {time.process_time() - begin:.0f} s of CPU time", flush=True)
    return 0


def told(found: Sequence[Evaluated]) -> str:
    """Return what the best network is, and what the best fifth has."""
    best, top = found[0], found[: max(1, len(found) // 5)]
    picked = Counter(_name(each) for each in top)
    shares = ", ".join(f"{name} {count} of {len(top)}" for name, count in picked.most_common())
    costs = best.costs
    return f"{costs.macs / 1e6:.2f} M MACs, {costs.ram:,} B, {costs.ms or 0:.1f} ms ({_name(best)}); best fifth: {shares}"


def _name(each: Evaluated) -> str:
    plan = each.choice.plan or PlanGene()
    by_rows, again = " by rows" if plan.stream_inputs else "", f" x{plan.max_mac_overhead:g}" if plan.max_mac_overhead else ""
    return f"{plan.schedule}{by_rows}{again}{' head' if each.choice.redistributed else ''}"


if __name__ == "__main__":
    raise SystemExit(main())
