"""Is any layer slower than the same layer in another engine?

In: a folder of .tflite files (--models), and figures of other engines in peers/figures.json, each with version, compiler and
flags. Out, worst ratio first: each recorded layer (--all: every layer of these models), compiled alone, with its kernel,
instructions and estimated cycles on an emulated core, beside the other engine's; whole networks with arena, Flash and
instructions; a table that Plumerai published for the STM32F746, beside our estimates. "Times fewer" is the other engine's
figure divided by ours. Single layers keep their constant channels, because other engines compute them; whole networks do not.
Exit code 1 if a recorded layer takes more instructions or cycles than in the other engine.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from models import RECORD, lcg_samples, number

from tinynas.arch import blocks, mobilenet_v2, rounded
from tinynas.network import to_graph
from tinynas.published.mobile import LAST
from tinyweave import api
from tinyweave.devices import find
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import Graph, Op
from tinyweave.passes import PASSES, shrink_channels, strip_edges, strip_transposes
from tinyweave.simulate import emulated
from tinyweave.simulate.instruction_timing import milliseconds

ROOT = Path(__file__).resolve().parents[1]
CORES = ("cortex-m4", "cortex-m55")
LEVELS = ("balanced", "speed")
BOARD, SIDE, WIDTH = "stm32f746", 80, 0.3  # of Plumerai's table


class Peer(NamedTuple):
    """A layer in another engine. cycles: as estimated from its instructions, None on a core without timings."""

    model: str
    layer: str
    core: str
    engine: str
    instructions: int
    cycles: int | None


class Row(NamedTuple):
    """A layer of ours beside the other engine's, if that is recorded. shape: of its input, and of its weights if it has any."""

    model: str
    layer: str
    core: str
    shape: str
    kernel: str
    instructions: int
    cycles: int | None
    peer: Peer | None

    @property
    def ratio(self) -> float:
        """Return the least of the other engine's instructions and cycles as a multiple of ours; infinity without a record."""
        if self.peer is None:
            return float("inf")
        cycles = self.peer.cycles / self.cycles if self.peer.cycles and self.cycles else float("inf")
        return min(self.peer.instructions / self.instructions, cycles)


def only(graph: Graph, op: Op) -> Graph:
    """Return a network of one layer."""
    tensors = {name: graph.tensors[name] for name in (*op.inputs, *op.outputs) if name is not None}
    inputs = tuple(dict.fromkeys(name for name in op.inputs if name is not None and tensors[name].data is None))
    return replace(graph, tensors=tensors, ops=(op,), inputs=inputs, outputs=op.outputs)


def layers(path: Path, core: str, peers: Sequence[Peer], *, every: bool) -> Iterator[Row]:
    """Yield the recorded layers of a model, or every layer that computes, each compiled for speed by itself."""
    model = api.load(path)
    graph = model.original
    for rewrite in PASSES:
        if rewrite not in (shrink_channels, strip_edges, strip_transposes):  # these would change what other engines compute
            graph, _ = rewrite(graph)
    known = {peer.layer: peer for peer in peers if (peer.model, peer.core) == (path.stem, core)}
    assert known.keys() <= {op.name for op in graph.ops}, f"{path.stem} has other layers than those that are recorded"
    for op in graph.ops:
        if not every and op.name not in known:
            continue
        alone = replace(model, graph=only(graph, op))
        plan = api.plan(alone, core, optimize="speed")
        if not plan.variants[0]:  # a view
            continue
        profile = api.profile_plan(alone, plan, core, lcg_samples(alone.graph, 1)[0])
        weights = [t.name for t in map(graph.tensors.get, op.inputs) if t and t.data is not None and len(t.shape) > 1]
        shape = " * ".join("x".join(map(str, graph.tensors[name].shape)) for name in (op.inputs[0], *weights))
        counts = profile.instructions, profile.cycles.likely if profile.cycles else None
        yield Row(path.stem, op.name, core, shape, plan.variants[0], *counts, known.get(op.name))


def short(name: str) -> str:
    """Return a model's name without its repository."""
    return name.rpartition("__")[2]


def print_layers(rows: Sequence[Row]) -> None:
    columns = ("model", "layer", "core", "shape", "kernel", "instructions", "cycles", "engine", "instructions", "cycles")
    print(f"\n| {' | '.join(columns)} | times fewer |\n|{'---|' * 5}{'---:|' * 2}---|{'---:|' * 3}")
    for row in sorted(rows, key=lambda row: row.ratio):
        theirs = (row.peer.engine, number(row.peer.instructions), number(row.peer.cycles)) if row.peer else ("-",) * 3
        counts = (number(row.instructions), number(row.cycles), *theirs, f"{row.ratio:.2f}" if row.peer else "-")
        print(f"| {short(row.model)} | {' | '.join((row.layer, row.core, row.shape, row.kernel, *counts))} |")


def network(path: Path, peers: dict[str, dict[str, Any]], engines: Sequence[str]) -> tuple[float, str]:
    """Return the least ratio of instructions of a whole network, and its row: arena, Flash, instructions of each engine."""
    model, figures = api.load(path), list[tuple[int, int, int]]()
    for level in LEVELS:
        plan = api.plan(model, CORES[0], optimize=level)
        profile = api.profile_plan(model, plan, CORES[0], lcg_samples(model.graph, 1)[0])
        figures.append((sum(plan.arena.values()), profile.flash, profile.instructions))
    cells = ["; ".join(map(number, figure)) for figure in figures]
    for peer in map(peers.get, engines):
        off = f" (bytes off by {peer['difference']})" if peer and peer["difference"] else ""
        cells.append(f"{peer['arena']:,}; {peer['flash']:,}; {peer['instructions']:,}{off}" if peer else "-")
    ratio = min(peer["instructions"] for peer in peers.values()) / figures[0][-1]
    return ratio, f"| {short(path.stem)} | {' | '.join(cells)} | {ratio:.2f} |"


def print_networks(folder: Path, recorded: Sequence[dict[str, Any]], names: Sequence[str]) -> None:
    by_model: dict[str, dict[str, dict[str, Any]]] = {}
    for peer in recorded:
        by_model.setdefault(peer["model"], {})[peer["engine"]] = peer
    engines = list(dict.fromkeys(peer["engine"] for peer in recorded))
    columns = ("network: arena; Flash; instructions", *(f"tinyweave, {level}" for level in LEVELS), *engines)
    chosen = [name for name in by_model if matches(name, names)]
    if chosen:
        print(f"\n| {' | '.join(columns)} | balanced: times fewer instructions |\n|---|{'---:|' * len(columns)}")
    for _, row in sorted(network(folder / f"{name}.tflite", by_model[name], engines) for name in chosen):
        print(row, flush=True)


def print_published(published: Sequence[dict[str, Any]]) -> None:
    """Print the published table and our estimates. Ours scales the last convolution, too, to fit the Flash."""
    board = find(BOARD)
    network = f"MobileNetV2 {WIDTH} at {SIDE}x{SIDE}, {BOARD}, random weights"
    print(f"\n| {network} | ms | RAM, KiB | Flash, KiB |\n|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mobilenet.tflite"
        network = replace(mobilenet_v2(SIDE, WIDTH), last=rounded(LAST * WIDTH))  # else the classifier would not fit the board
        path.write_bytes(to_tflite(to_graph(f"MobileNetV2-{WIDTH}-{SIDE}", blocks(network), network.classes)))
        model = api.load(path)
    for level in LEVELS:
        plan = api.plan(model, board.core, optimize=level)
        profile = api.profile_plan(model, plan, board.core, lcg_samples(model.graph, 1)[0], device=board)
        assert profile.cycles is not None and board.clock_hz is not None
        cycles = (profile.cycles.likely, profile.cycles.fewest, profile.cycles.most)
        likely, least, most = (f"{milliseconds(count, board.clock_hz):.1f}" for count in cycles)
        sizes = f"{profile.ram / 1024:.1f} | {profile.flash / 1024:.1f}"
        print(f"| tinyweave, {level}, estimated | {likely} ({least} to {most}) | {sizes} |")
    for row in published:
        print(f"| {row['engine']}, published | {row['ms']} | {row['kib']} | |")


def matches(name: str, parts: Sequence[str]) -> bool:
    return not parts or any(part in name for part in parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only models whose name contains one of these")
    parser.add_argument("--models", type=Path, default=ROOT.parent / "shared" / "models")
    parser.add_argument("--cores", default=",".join(CORES), help="comma-separated")
    parser.add_argument("--all", action="store_true", help="every layer of the models, also those without a recorded figure")
    options = parser.parse_args()
    record = json.loads(RECORD.read_text())
    for engine, about in record["engines"].items():
        print(f"{engine}: {', '.join(about.values())}")
    peers = [Peer(**row) for row in record["layers"]]
    chosen = [(peer.model, peer.core) for peer in peers if matches(peer.model, options.names)]
    if not chosen:
        print(f"no recorded model is called {' or '.join(options.names)}", file=sys.stderr)
        return 2
    rows = [
        row
        for name, core in dict.fromkeys(chosen)
        if core in options.cores.split(",") and emulated.missing(core) is None
        for row in layers(options.models / f"{name}.tflite", core, peers, every=options.all)
    ]
    print_layers(rows)
    print_networks(options.models, record["networks"], options.names)
    if not options.names:
        print_published(record["published"])
    slower = [row for row in rows if row.ratio < 1]
    print(f"\n{sum(row.peer is not None for row in rows)} recorded layers, {len(slower)} slower than the other engine's")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
