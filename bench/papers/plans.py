"""Networks of random weights, and a table of their plans with everything counted. In: Blocks. Out: a Model; rows on stdout."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from tinynas.arch import Block
from tinynas.network import to_graph
from tinyweave import api
from tinyweave.api import results
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ops import macs
from tinyweave.planning import Plan
from tinyweave.planning.fuse.row_schedule import plan_macs

KIB = 1024


def model_of(name: str, blocks: Sequence[Block], classes: int | None = None, *, keep_image: bool = False) -> results.Model:
    """A network as any other comes: from a file. keep_image: the image is an output too, so that no map takes its bytes."""
    graph = to_graph(name, blocks, classes)
    if keep_image:
        graph = replace(graph, outputs=(*graph.outputs, *graph.inputs))
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as folder:
        path = Path(folder) / f"{name}.tflite"
        path.write_bytes(to_tflite(graph))
        return api.load(path)


def table(model: results.Model, rows: Iterable[tuple[str, bool, float]], core: str | None, samples: int) -> tuple[int, Plan]:
    """Print plans, each made for a schedule, an input by rows or not, and an overhead: how many gave wrong bytes; the last."""
    print("| schedule | input | arena, KiB | MACs | bytes equal |\n|---|---|---:|---:|---|")
    wrong, work = 0, macs(model.graph)
    for schedule, streamed_inputs, overhead in rows:
        plan = api.plan(model, schedule=schedule, stream_inputs=streamed_inputs, max_mac_overhead=overhead, optimize="size")
        equal = api.verify_plan(model, plan, api.ProofOptions(count=samples), core=core).ok
        wrong += not equal
        cells = [schedule, "by rows" if streamed_inputs else "in RAM", f"{sum(plan.arena.values()) / KIB:.1f}"]
        cells += [f"{sum(plan_macs(plan)) / work:.3f}", "yes" if equal else "NO"]
        print("| " + " | ".join(cells) + " |", flush=True)
    return wrong, plan
