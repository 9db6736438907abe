"""Operator reordering (arXiv 1910.05110): its figures beside ours.

In: its example, built in; SwiftNet Cell and the person detection model (--shared: the folder of the real models and networks).
Out: bytes at the peak as the paper prints them, exact, and reproduced by its count (`working_set`); then what a plan needs, all
of the arena, its bytes compared on this machine and on an emulated core. The paper's kB are 1000 bytes, cut. Exit code 1 when a
figure is not reproduced, or a byte differs. `planning/order.py` has more networks, and the time that it takes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from cases.sizes import figure_1, from_json  # noqa: E402

from tinyweave import api  # noqa: E402
from tinyweave.ir import Graph  # noqa: E402
from tinyweave.planning.order.order_search import best_order, file_order, live_bytes, without_views  # noqa: E402

SWIFTNET = "derived__swiftnet_cell_ckpt75000_int8"
PERSON = "google__CFU-Playground__model_pdti8"


def peaks(graph: Graph) -> tuple[int, int]:
    """In the file's order and in the best one."""
    owner = without_views(graph)
    return max(live_bytes(graph, file_order(graph), owner)), best_order(graph, owner).peak


def views_split(graph: Graph) -> int:
    """The best order's peak where the split of the input is a view."""
    (split,) = (op for op in graph.ops if op.kind == "split")
    source = split.inputs[0]
    assert source is not None
    return best_order(graph, without_views(graph) | {split.outputs[0]: source}).peak


def figures(shared: Path) -> list[tuple[str, str, int, int]]:
    """What, as printed, exact, reproduced."""
    default, best = peaks(figure_1())
    rows = [
        ("figure 1, default order, bytes", "5216", 5_216, default),
        ("figure 1, best order, bytes", "4960", 4_960, best),
    ]
    if not shared.is_dir():
        return rows
    swiftnet, person = (
        from_json(shared / "nets" / "swiftnet_graph.json"),
        api.read(shared / "models" / f"{PERSON}.tflite").graph,
    )
    default, best = peaks(swiftnet)
    return [
        *rows,
        ("SwiftNet Cell, default order", "351 kB", 351_232, default),
        ("SwiftNet Cell, best order", "301 kB", 301_056, best),
        ("  with the input's split as a view", "-", 275_968, views_split(swiftnet)),
        ("MobileNet v1, all tensors at once", "241 kB", 241_030, sum(person.tensors[n].bytes for n in without_views(person))),
        ("MobileNet v1, as they come and go", "55 kB", 55_296, peaks(person)[1]),
    ]


def ours(path: Path, core: str | None) -> bool:
    """Print the arenas of one model's plans; whether all bytes are right."""
    model, cells, all_equal = api.load(path), list[str](), True
    for schedule, streamed_inputs in (("layer", False), ("unfused", False), ("best", False), ("best", True)):
        plan = api.plan(model, schedule=schedule, stream_inputs=streamed_inputs, optimize="size")
        all_equal = all_equal and api.verify_plan(model, plan, api.ProofOptions(count=1), core=core).ok
        cells.append(f"{sum(plan.arena.values()):,}")
    print(f"| {path.stem} | " + " | ".join(cells) + f" | {'yes' if all_equal else 'NO'} |", flush=True)
    return all_equal


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared")
    parser.add_argument("--core", default=api.DEFAULT_CORE, help="the emulated core that runs the plans, '' for none")
    options = parser.parse_args()
    print("| peak | paper | exact | reproduced |\n|---|---:|---:|---:|")
    wrong = 0
    for what, printed, exact, found in figures(options.shared):
        wrong += found != exact
        differs = "" if found == exact else " DIFFERS"
        print(f"| {what.replace('  ', '&ensp;')} | {printed} | {exact:,} | {found:,}{differs} |")
    if not options.shared.is_dir():
        print(f"no folder {options.shared}: the example only; name it with --shared", file=sys.stderr)
        return 1 if wrong else 0
    print("\n| arena, bytes | layer | unfused | best | best, input by rows | bytes equal |\n|---|---:|---:|---:|---:|---|")
    for name in (SWIFTNET, PERSON):
        wrong += not ours(options.shared / "models" / f"{name}.tflite", options.core or None)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
