"""RAM and MACs of a network as a paper counts them: of our plan, and of the paper's own solutions for the same network.

In: a model, the paper's rule, limits of RAM and MACs. Out: a table. F is the MACs with recomputation, as a multiple of the MACs
without. Exit code 2 when the convolutions of the network form no chain that the paper counts.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tinylesson.papers.chain import chain_of
from tinylesson.papers.counts import COUNTS, counted
from tinyweave import CompileError, api
from tinyweave.devices import parse_size
from tinyweave.ops import macs
from tinyweave.report.columns import align

TITLES = {"fusion_paper": "multi-stage fusion, arXiv 2505.11483", "patch_paper": "patches, MCUNet thesis, arXiv 2110.15352"}


def table(path: str, rule: str, overhead: float | None, ram: int | None, *, stream_inputs: bool = False) -> list[str]:
    """The lines of the table; the last ones name the ops that the rule leaves out, and the paper."""
    model = api.load(path)
    chain = chain_of(model.graph)
    plan = api.plan(model, ram=ram, max_mac_overhead=overhead, stream_inputs=stream_inputs)
    most = overhead or 1.0
    found = counted(rule, plan, chain, work=macs(model.graph), overhead=most, ram=ram)
    what = {
        "plan": "this plan",
        "layer_by_layer": "layer by layer",
        "least_ram": f"least RAM, F <= {most:g}",
        "least_ram_any_work": "least RAM, any F",
        "least_work": f"least F in {ram or 0:,} B",
    }
    cells = [(rule, "RAM", "its F", "exact F", "")]
    for name, row in found.rows.items():
        its = f"{row.overhead:.3f}" if row and row.overhead is not None else ""
        cells.append((what[name], *((f"{row.ram:,} B", its, f"{row.exact:.3f}", row.how) if row else ("none", "", "", ""))))
    lines = [line.rstrip() for line in align(cells, frozenset({1, 2, 3}))]
    kinds = Counter(op.kind for op in model.graph.ops if op.name in set(found.left_out))
    if kinds:
        lines.append(f"left out of all rows but the plan's: {', '.join(f'{count} {kind}' for kind, count in kinds.items())}")
    return [*lines, f"({TITLES[rule]}; its count is not all that a chip needs)"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--rule", choices=COUNTS, default="fusion_paper")
    parser.add_argument("--ram", help="limit of RAM, such as 64k")
    parser.add_argument("--max-mac-overhead", type=float)
    parser.add_argument("--stream-inputs", action="store_true")
    options = parser.parse_args()
    try:
        ram = None if options.ram is None else parse_size(options.ram)
        print(*table(options.model, options.rule, options.max_mac_overhead, ram, stream_inputs=options.stream_inputs), sep="\n")
    except CompileError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
