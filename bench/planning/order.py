"""The table of orders: what do the file's order and the best one need, is it proved, and how long does that take?

In: generated networks (NASNet, AmoebaNet, DARTS, RandWire, Inception) and, with --models, a folder of .tflite files. Out: a
row per network: ops, live bytes at the peak by file order, best order and bound, sets of ops looked at, seconds of
CPU time; for the real models also as plain `working_set`. Exit code 1 when a network takes longer than --limit.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT), str(ROOT / "tests")]

from cases.graphs import GRAPHS  # noqa: E402

from tinyweave import api  # noqa: E402
from tinyweave.ir import CompileError, Graph  # noqa: E402
from tinyweave.planning.alias.overlap import views  # noqa: E402
from tinyweave.planning.order.order_search import best_order, file_order, live_bytes, without_views  # noqa: E402

HEAD = f"{'network':<56} {'ops':>5} {'file order':>11} {'best order':>11} {'bound':>11} {'gain':>6} {'sets':>8} {'seconds':>8}"


def networks(folder: Path | None, wanted: list[str]) -> Iterator[tuple[str, Graph, Mapping[str, str]]]:
    """Name, graph, and who shares bytes with whom."""
    for name, build in GRAPHS.items():
        if not wanted or name in wanted:
            graph = build()
            yield name, graph, views(graph)
    for path in sorted(folder.glob("*.tflite")) if folder else ():
        if wanted and path.stem not in wanted:
            continue
        try:
            graph = api.load(path).original
        except CompileError:
            continue
        yield path.stem, graph, views(graph)
        yield f"{path.stem}, working_set", graph, without_views(graph)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only these networks")
    parser.add_argument("--models", type=Path, help="a folder of .tflite files")
    parser.add_argument("--all", action="store_true", help="real models that gain nothing, too")
    parser.add_argument("--limit", type=float, default=10.0, help="seconds of CPU time that a network may take")
    options = parser.parse_args()
    late = 0
    print(HEAD)
    for name, graph, owner in networks(options.models, options.names):
        before = max(live_bytes(graph, file_order(graph), owner))
        start = time.process_time()
        found = best_order(graph, owner)
        seconds = time.process_time() - start
        late += seconds > options.limit
        if name in GRAPHS or options.all or options.names or found.peak < before or found.gap:
            print(
                f"{name[-56:]:<56} {len(graph.ops):>5} {before:>11,} {found.peak:>11,} {found.lower_bound:>11,}"
                f" {1 - found.peak / before:>6.1%} {found.states:>8,} {seconds:>8.2f}",
                flush=True,
            )
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
