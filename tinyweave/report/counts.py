"""Show RAM and MACs of a plan as a paper counts them, for `plan --count`. In: a Counted. Out: a record; lines."""

from __future__ import annotations

from collections import Counter

from ..ir import Graph
from ..papers.counts import Counted
from .columns import align
from .record import Record

TITLES = {"fusion_paper": "multi-stage fusion, arXiv 2505.11483", "patch_paper": "patches, MCUNet thesis, arXiv 2110.15352"}
NONE = "none"


def count_record(counted: Counted) -> Record:
    """Return RAM and MAC overheads of a plan and of the paper's own solutions as a dict for json.dumps."""
    rows = {
        name: row
        and {
            "ram": row.ram,
            "mac_overhead": None if row.overhead is None else round(row.overhead, 4),
            "exact_mac_overhead": round(row.exact, 4),
            "how": row.how,
        }
        for name, row in counted.rows.items()
    }
    return {"name": counted.name, "left_out": list(counted.left_out), **rows}


def count_lines(graph: Graph, counted: Counted, overhead: float, ram: int | None) -> list[str]:
    """Return a table of the plan and the paper's own solutions by the paper's count, with the ops that the count leaves out.

    Args:
        graph: the network.
        counted: the result of the count.
        overhead: limit on F (MACs as a multiple of the chain's MACs) of the row `least RAM`.
        ram: RAM limit in bytes of the row `least F`; None for no such row.
    """
    what = {
        "plan": "this plan",
        "layer_by_layer": "layer by layer",
        "least_ram": f"least RAM, F <= {overhead:g}",
        "least_ram_any_work": "least RAM, any F",
        "least_work": f"least F in {ram:,} B" if ram is not None else "",
    }
    cells = [(f"{counted.name}, for comparison", "RAM", "its F", "exact F", "")]
    for name, row in counted.rows.items():
        its = f"{row.overhead:.3f}" if row and row.overhead is not None else ""
        shown = (f"{row.ram:,} B", its, f"{row.exact:.3f}", row.how) if row else (NONE, "", "", "")
        cells.append((what[name], *shown))
    lines = [line.rstrip() for line in align(cells, frozenset({1, 2, 3}))]
    kinds = Counter(op.kind for op in graph.ops if op.name in set(counted.left_out))
    if kinds:
        lines.append(f"left out of all rows but the plan's: {', '.join(f'{count} {kind}' for kind, count in kinds.items())}")
    return [*lines, f"({TITLES[counted.name]}; its count is not all that a chip needs)"]
