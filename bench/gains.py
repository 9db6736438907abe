"""What is each technique of the planner worth? In: real models, random networks. Out: per technique its lines of code, and by
how much plans get worse without it, all others staying: at most, and in the median.

Five points are looked at: the least RAM with the input in RAM and by rows, the least RAM x cycles, the fewest cycles,
and the fewest cycles halfway (in the geometric mean) between the RAM of the first and that of the fourth. All on a Cortex-M4
with its own kernels and 1.1 times the work. Cycles are estimates. A technique is taken away by swapping a function of the
planner, named in TECHNIQUES. Models that take longer than --limit-s to plan are left out. With --record it goes on where it was
stopped. Plans are made and checked, not built.
"""

from __future__ import annotations

import argparse
import inspect
import json
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from math import inf, isqrt
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fuzz.generate import BY_ROW, GROWERS, random_network

from tinyweave import api
from tinyweave.ir import CompileError, Graph
from tinyweave.planning import Request, assemble, layouts, strategies
from tinyweave.planning.alias import overlap, subtensors
from tinyweave.planning.alias.overlap import ANY_DISTANCE
from tinyweave.planning.fuse import rematerialise, row_access, row_schedule
from tinyweave.planning.kernels import flash_budget
from tinyweave.planning.kernels.cycles import cycles_to_compare
from tinyweave.planning.order import op_sets, order_search
from tinyweave.planning.place import branch_and_bound, relocate, relocation_ops
from tinyweave.planning.search import channels_once, orders, pareto, path_search, stage_growth, stage_overlap, tiles

MODELS = Path(__file__).resolve().parents[2] / "shared" / "models"
CORE, OVERHEAD = "cortex-m4", 1.1
FIRST_SEED = 700_000  # of networks that nothing else uses
POINTS = ("least RAM", "least RAM, by rows", "RAM x cycles", "fewest cycles", "cycles halfway")
SMALL = 1.01  # a gain below it is none

Swaps = Sequence[tuple[Any, str, Any]]


class Technique(NamedTuple):
    """swaps: (where, name, what is there instead). costs: the modules and functions that would go with it; lines of it in
    functions that do other things, too, are not counted."""

    swaps: Swaps
    costs: Sequence[Any]


def _clamped(most: int) -> Swaps:
    """No output lies over an operand at more than this distance."""

    def of_ops(graph, variants, owner, max_distance=ANY_DISTANCE, offset=None):
        return overlap.distances(graph, variants, owner, min(max_distance, most), offset)

    def of_stage(*arguments):
        found = _stage_distances(*arguments)
        return {name: distance if distance <= most else ANY_DISTANCE for name, distance in found.items()}

    by_ops = [(orders, "distances", of_ops), (row_schedule, "distances_of_ops", of_ops)]
    return [*by_ops, *((module, "distances", of_stage) for module in (row_schedule, stage_overlap))]


_stage_distances = row_schedule.distances


def _untiled(row_graph, order, budget, *, any_length=False):
    return [[] for _ in range(len(order) + 1)]


def _no_work_again(row_graph, order, budget, *, any_length=False):
    return _tile_candidates(row_graph, order, 0, any_length=any_length)


def _greedy(buffers, rules=(), tries=0, enough=0, known=None):
    return _place(buffers, rules, 0, enough, known)


def _only_overlapping(spaces, schedule, overhead):
    return [each for each in _spaces_of(spaces, schedule, overhead) if each.overlap]


_tile_candidates, _place, _draft = tiles.tile_candidates, assemble.place, assemble.place_layout
_spaces_of, _orders_of = strategies.PlanSpaces.of, orders.orders_of
_kernel_sets, _shared_in = flash_budget.kernel_sets, overlap.shared_in


def _unfused(*arguments, **options):
    return path_search.PathSearch(*arguments, **options | {"fuses": False})


TECHNIQUES = {
    "all orders but the file's": Technique(
        [(strategies, "orders_of", lambda graph, shared, sets, streams: (order_search.file_order(graph),))],
        [
            op_sets,
            order_search.best_order,
            *[f for n, f in vars(order_search).items() if n.startswith("_") and inspect.isfunction(f)],
        ],
    ),
    "the file's order besides": Technique(
        [(strategies, "orders_of", lambda *arguments: _orders_of(*arguments)[:1])],
        [],
    ),
    "outputs over operands": Technique(_clamped(-ANY_DISTANCE), [overlap.rules, overlap.saved_bytes, row_schedule._distance]),
    "... further than in place": Technique(_clamped(0), []),
    "tensors inside others": Technique(
        [(strategies, "shared_in", lambda graph, order, *, parts: _shared_in(graph, order, parts=False))], [subtensors]
    ),
    "spaces without overlap": Technique([(strategies.PlanSpaces, "of", _only_overlapping)], []),
    "moves between steps": Technique(
        [(strategies, "place_layout", lambda layout, *, moves=True, tries=0: _draft(layout, moves=False, tries=tries))],
        [relocate, relocation_ops, assemble._with_relocations, assemble._relocate],
    ),
    "exact placement": Technique([(assemble, "place", _greedy)], [branch_and_bound]),
    "the next path where one is placed badly": Technique([(layouts, "MOST_LAYOUTS", 1)], []),
    "fused stages": Technique(
        [(strategies, "PathSearch", _unfused)],
        [row_schedule, stage_growth, stage_overlap, path_search.PathSearch._grown],
    ),
    "tiles": Technique(
        [(path_search, "tile_candidates", _untiled)],
        [tiles, stage_growth.extend_tilings, stage_growth.keep_best_tilings, stage_growth.bytes_saved_by_tile],
    ),
    "tiles that do work again": Technique([(path_search, "tile_candidates", _no_work_again)], []),
    "tiles of several rows": Technique([(tiles, "TILE_ROWS", (1,))], []),
    "tiles wider than a column": Technique(
        [(path_search.PathSearch, "_widths", lambda self, tile: [tile])], [path_search.PathSearch._widths]
    ),
    "more than one choice of tiles": Technique([(stage_growth, "MOST_TILINGS", 1)], []),
    "stages of more than six ops": Technique([(stage_growth, "MOST_GROWN", 1)], []),
    "maps computed twice": Technique(
        [(strategies.PlanSpaces, "_rematerialised", lambda *arguments, **options: ())],
        [rematerialise, channels_once, strategies.PlanSpaces._rematerialised],
    ),
    "a choice of kernels per op": Technique(
        [(flash_budget, "kernel_sets", lambda *arguments: [each[-1:] for each in _kernel_sets(*arguments)])],
        [path_search.PathSearch._compute_exactly, pareto],
    ),
    "kernels that keep more constants": Technique(
        [(flash_budget, "kernel_sets", lambda *arguments: [each[:2] for each in _kernel_sets(*arguments)])],
        [flash_budget._heavy, flash_budget._by_rate, flash_budget.trades_flash],
    ),
}


@contextmanager
def without(name: str) -> Iterator[None]:
    """The planner without a technique; with all where the name is empty."""
    with ExitStack() as stack:
        for where, attribute, other in TECHNIQUES[name].swaps if name else ():
            stack.enter_context(patch.object(where, attribute, other))
        yield


def lines(costs: Sequence[Any]) -> int:
    """Lines of code of modules and functions, those in C beside them as well."""
    count = 0
    for each in costs:
        file = Path(each.__file__ or "") if isinstance(each, ModuleType) else None
        texts = (
            [path.read_text() for path in (file, file.with_suffix(".c")) if path.exists()]
            if file
            else [inspect.getsource(each)]
        )
        count += sum(len(text.splitlines()) for text in texts)
    return count


def measured(graph: Graph, halfway: int | None) -> dict[str, float]:
    """The points of a graph's front; halfway: the RAM at which cycles are wanted, worked out of the others where it is None."""
    kernels = flash_budget.kernel_sets(graph, CORE)[-1]
    orders = strategies.SearchedOrders(graph, row_access.WHOLE, fast=False)
    in_ram = strategies.PlanSpaces(orders, "sram", kernels).of("best", OVERHEAD)
    least, balanced, fastest = (layouts.LayoutSearch(in_ram).plan(aim) for aim in ("size", "balanced", "speed"))
    row = {"least RAM": least.arena["sram"], "fewest cycles": cycles_to_compare(fastest, CORE)}
    row["RAM x cycles"] = balanced.arena["sram"] * cycles_to_compare(balanced, CORE)
    row["halfway"] = halfway or isqrt(least.arena["sram"] * fastest.arena["sram"])
    within = layouts.LayoutSearch(in_ram).plan("speed", int(row["halfway"]))
    row["cycles halfway"] = cycles_to_compare(within, CORE) if within.arena["sram"] <= row["halfway"] else inf
    try:
        streams = strategies.streamed_io(graph, Request(stream_inputs=True))
        by_rows = strategies.PlanSpaces(strategies.SearchedOrders(graph, streams, fast=False), "sram", kernels)
        row["least RAM, by rows"] = layouts.LayoutSearch(by_rows.of("best", OVERHEAD)).plan("size").arena["sram"]
    except CompileError:
        pass
    return row


def networks(first: int, count: int) -> Iterator[tuple[str, Callable[[], Graph]]]:
    """Random networks: half of them run by rows from end to end; then models, the smallest files first."""
    for seed in range(first, first + count):
        grown = ({"growers": BY_ROW, "live": 3}, {"growers": GROWERS, "live": 6})[seed % 2]
        yield f"random {seed}", partial(random_network, seed, 10 + seed % 16, **grown)
    for path in sorted(MODELS.glob("*.tflite"), key=lambda path: path.stat().st_size):
        yield path.stem, lambda path=path: api.load(path, io="int8", layout="nhwc").graph


def rows(name: str, make: Callable[[], Graph], limit_s: float, known: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield (technique, points without it) of a network, all techniques first, as far as they are not known; a text is why
    there are none."""
    wanted = [technique for technique in ("", *TECHNIQUES) if technique not in known]
    if isinstance(known.get(""), str) or not wanted:
        return
    try:
        graph = make()
        flash_budget.kernel_sets(graph, CORE)[-1]
    except CompileError as error:
        known[""] = f"refused: {error}"
        yield "", known[""]
        return
    for technique in wanted:
        halfway = None if technique == "" else int(known[""]["halfway"])
        signal.setitimer(signal.ITIMER_VIRTUAL, limit_s * (1 if technique == "" else 8))
        try:
            with without(technique):
                begun = time.process_time()
                known[technique] = measured(graph, halfway) | {"seconds": time.process_time() - begun}
        except TimeoutError:
            known[technique] = "takes too long"
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        yield technique, known[technique]
        if isinstance(known[""], str):
            return


def stop(*_: object) -> None:
    raise TimeoutError


def gains(known: Mapping[str, Mapping[str, Any]], technique: str, point: str) -> list[tuple[float, str]]:
    """Return how many times more is needed without a technique, per network, and the network's name."""
    both = ((name, of.get(""), of.get(technique)) for name, of in known.items())
    return [
        (without_it[point] / with_it[point], name)
        for name, with_it, without_it in both
        if isinstance(with_it, dict) and isinstance(without_it, dict) and point in with_it and point in without_it
        if 0 < with_it[point] < inf
    ]


def show(known: Mapping[str, Mapping[str, Any]]) -> None:
    groups = {"models": {}, "random": {}}
    for name, of in known.items():
        groups["random" if name.startswith("random ") else "models"][name] = of
    for title, group in groups.items():
        counted = sum(isinstance(of.get(""), dict) for of in group.values())
        print(
            f"\n{title}, {counted} networks: without it, in per cent more; the most / the median, (networks with 1 % or more)\n"
        )
        print(f"| technique | lines | {' | '.join(POINTS)} | where most |\n|---|---:|{'---:|' * len(POINTS)}---|")
        for technique, (_, costs) in TECHNIQUES.items():
            cells, where = list[str](), ""
            for point in POINTS:
                found = sorted(gains(group, technique, point))
                fit = [(gain, name) for gain, name in found if gain < inf]
                unfit = len(found) - len(fit)
                if not fit:
                    cells.append("-")
                    continue
                most, name = fit[-1]
                middle = statistics.median(gain for gain, _ in fit)
                many = sum(gain >= SMALL for gain, _ in fit)
                cells.append(
                    f"{100 * most - 100:.1f} / {100 * middle - 100:.1f} ({many}{f', {unfit} do not fit' if unfit else ''})"
                )
                where = where or (name if most >= SMALL else "")
            print(f"| {technique} | {lines(costs)} | {' | '.join(cells)} | {where.rpartition('__')[2]} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only networks whose name contains one of these")
    parser.add_argument("--count", type=int, default=200, help="random networks")
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="the seed of the first of them")
    parser.add_argument(
        "--limit-s", type=float, default=3, help="CPU seconds that planning a model with all techniques may take"
    )
    parser.add_argument("--record", type=Path, metavar="FILE", help="rows that are known, to go on from; new ones are added")
    options = parser.parse_args()
    known: dict[str, dict[str, Any]] = {}
    for line in options.record.read_text().splitlines() if options.record and options.record.exists() else ():
        name, technique, row = json.loads(line)
        known.setdefault(name, {})[technique] = row
    signal.signal(signal.SIGVTALRM, stop)
    for name, make in networks(options.first, options.count):
        if not options.names or any(part in name for part in options.names):
            for technique, row in rows(name, make, options.limit_s, known.setdefault(name, {})):
                if options.record:
                    with options.record.open("a") as file:
                        file.write(json.dumps([name, technique, row]) + "\n")
    show(known)
    return 0


if __name__ == "__main__":
    sys.exit(main())
