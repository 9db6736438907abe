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
    """Return a plan and a paper's own solutions for the same network, both measured by the paper's counting rule, as a dict.

    Each has its RAM, its MACs relative to the network's, and a description. The dict is for json.dumps.
    """
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
    """Return the lines of a table of RAM and MACs by a paper's counting rule: of our plan, and of the paper's own solutions.

    F is the MACs with recomputation, as a multiple of the MACs without. A last line lists the ops that the rule does not count.

    Args:
        counted: the plan and the paper's solutions, measured by the rule.
        overhead: limit on F in the row of the solution with the least RAM.
        ram: RAM limit in bytes in the row of the solution with the least F; None leaves this row out.
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
