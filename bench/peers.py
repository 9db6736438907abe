"""Is any layer of a model slower than in CMSIS-NN?

In: .tflite files, a static library of CMSIS-NN that you built, or a folder of them with CORE.a for each core (--library), and
its folder Include (--include). Neither is part of this project, nor is a script that builds them. Out, worst ratio first: each
layer of the kinds in cmsis_calls.CALLS, compiled alone, with its kernel, instructions and estimated cycles on an emulated core,
beside those of one direct call of CMSIS-NN with the same inputs; how many of its values differ from the reference, which ours
equal; the sums of each model. "Times fewer" is the library's instructions divided by ours, or the ratio of cycles if it is
smaller. Layers keep their constant channels. Exit code 1: a layer of ours is slower; 2: no layer was compared.

With --networks instead: RAM, instructions and Flash of each whole network by direct calls, that is the maps that live at once,
the sum of the calls, their functions and constants; and of ours at LEVELS, and with a Flash limit between.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.append(str(Path(__file__).with_suffix("")))
import one_line
from cmsis_calls import call, has_function, parts
from models import lcg_samples, number

from tinyweave import api
from tinyweave.ir import Graph, Op
from tinyweave.ops import run, spec_of
from tinyweave.passes import (
    PASSES,
    attention_rows,
    crop_windows,
    depthwise_to_conv,
    shrink_channels,
    strip_edges,
    strip_transposes,
)
from tinyweave.planning import Limits, Request
from tinyweave.simulate import emulated
from tinyweave.simulate.cores import CORES
from tinyweave.simulate.run import Fault

OURS = (depthwise_to_conv, crop_windows)  # passes on one layer, of which the library gets the layer before
NOT_SHARED = (*OURS, attention_rows, shrink_channels, strip_edges, strip_transposes)
COLUMNS = ("model", "layer", "core", "shape", "kernel", "instructions", "cycles", "CMSIS-NN's instructions", "cycles")
LEVELS = ("flash", "balanced", "speed")
SUMS = ("model", "core", "layers", "of them slower", "not compared", *COLUMNS[5:])


class Count(NamedTuple):
    """Instructions, and estimated cycles (0 on a core without timings)."""

    instructions: int
    cycles: int

    def over(self, other: Count) -> float:
        """Return the least of these instructions and cycles as a multiple of another count's."""
        return min(mine / its for mine, its in zip(self, other, strict=True) if its)


class Row(NamedTuple):
    """A layer of ours beside the library's. shape: of its input, and of its weights if it has any; wrong: values that differ.

    Without a function of the library, `theirs` is None, `kernel` is the kind of the op, and the rest is not measured.
    """

    model: str
    layer: str
    core: str
    shape: str
    kernel: str
    ours: Count
    theirs: Count | None = None
    wrong: int = 0

    @property
    def ratio(self) -> float:
        """Return how many times more the library takes."""
        return self.theirs.over(self.ours) if self.theirs else float("inf")


def shared_graph(model: api.Model) -> Graph:
    """Return the graph of a model after the passes that leave layers which both sides have."""
    graph = model.original
    for rewrite in PASSES:
        if rewrite not in NOT_SHARED:
            graph, _ = rewrite(graph)
    return graph


def computing(graph: Graph) -> list[Op]:
    """Return the ops that are no views."""
    return [op for op in graph.ops if spec_of(op).family != "view"]


def only(graph: Graph, op: Op) -> Graph:
    """Return a network of one layer."""
    tensors = {name: graph.tensors[name] for name in (*op.inputs, *op.outputs) if name is not None}
    inputs = tuple(dict.fromkeys(name for name in op.inputs if name is not None and tensors[name].data is None))
    return replace(graph, tensors=tensors, ops=(op,), inputs=inputs, outputs=op.outputs, init=())


def measure(model: api.Model, core: str, optimize: str, sample: Sequence[np.ndarray]) -> tuple[str, Count]:
    """Compile a layer; return its kernel, and its count on the emulated core."""
    graph = model.graph
    for rewrite in OURS:
        graph, _ = rewrite(graph)
    alone = replace(model, graph=graph)
    plan = api.plan(alone, core, optimize=optimize)
    profile = api.profile_plan(alone, plan, core, sample, by_step=False)
    return plan.variants[0], Count(profile.instructions, profile.cycles.likely if profile.cycles else 0)


def layers(path: Path, core: str, optimize: str, library: Path, include: Sequence[Path]) -> Iterator[Row]:
    """Yield each layer of a model that computes; if the library has a function for it, compiled and measured by itself."""
    model = api.load(path, io="model")
    graph = shared_graph(model)
    for op in computing(graph):
        weights = [t.name for t in map(graph.tensors.get, op.inputs) if t and t.data is not None and len(t.shape) > 1]
        shape = " * ".join("x".join(map(str, graph.tensors[name].shape)) for name in (op.inputs[0], *weights) if name)
        alone, row = only(graph, op), Row(path.stem, op.name, core, shape, op.kind, Count(0, 0))
        if has_function(alone):
            sample = lcg_samples(alone, 1)[0]
            try:
                done = call(alone, core, sample, library, include)
            except Fault as error:  # such as the error code of a function that lacks an implementation
                print(f"{path.stem}, {op.name}, {core}: CMSIS-NN's call failed: {error}", file=sys.stderr)
            else:
                expected = run(alone, dict(zip(alone.inputs, sample, strict=True)))[op.outputs[0]].ravel()
                wrong = int((np.frombuffer(done.outputs[0], expected.dtype) != expected).sum())
                theirs = Count(done.instructions, sum(part.likely for part in emulated.cycles(core, done).values()))
                row = Row(*row[:4], *measure(replace(model, graph=alone), core, optimize, sample), theirs, wrong)
        yield row


def most_at_once(graph: Graph) -> int:
    """Return the most bytes of maps that live at once in the order of the ops; a view is the map that it views."""
    place, used = dict[str, str](), dict[str, list[int]]()
    for step, op in enumerate(graph.ops):
        if spec_of(op).family == "view":
            place[op.outputs[0]] = place.get(op.inputs[0], op.inputs[0])
        for name in (*op.inputs, *op.outputs, *(graph.outputs if step + 1 == len(graph.ops) else ())):
            if name and graph.tensors[name].data is None:
                used.setdefault(place.get(name, name), []).append(step)
    spans = [(min(steps), max(steps), graph.tensors[name].bytes) for name, steps in used.items()]
    return max(sum(size for first, last, size in spans if first <= step <= last) for step in range(len(graph.ops)))


def networks(path: Path, core: str, library: Path, include: Sequence[Path]) -> Iterator[tuple[str, str, int, int, int]]:
    """Yield rows of model, who, bytes of RAM, instructions and bytes of Flash, of CMSIS-NN first."""
    model = api.load(path, io="int8")
    graph, needed, instructions = shared_graph(model), dict[str, int](), 0
    alone = [only(graph, op) for op in computing(graph)]
    for each in filter(has_function, alone):
        instructions += call(each, core, lcg_samples(each, 1)[0], library, include).instructions
        needed |= parts(each, core, library, include)
    others = sorted({each.ops[0].kind for each in alone if not has_function(each)})
    yield path.stem, " without ".join(["CMSIS-NN", *others]), most_at_once(graph), instructions, sum(needed.values())
    plans = {level: api.plan(model, core, optimize=level) for level in LEVELS}
    profiles = {level: api.profile_plan(model, plan, core, by_step=False) for level, plan in plans.items()}
    half = (profiles["flash"].flash + profiles["balanced"].flash) // 2
    request = Request(limits=Limits(flash=half), core=core)
    with tempfile.TemporaryDirectory() as folder:
        found = api.deploy_model(model, Path(folder), request, proof=api.ProofOptions(count=1))
    for level, profile in ({f"--flash {half}": found.profile} | profiles).items():
        if profile:  # None if no plan has at most that Flash
            yield path.stem, level, sum(profile.arena.values()), profile.instructions, profile.flash


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path, help=".tflite files")
    parser.add_argument("--cores", default="cortex-m4", help="comma-separated, such as m0+,m4,m55")
    parser.add_argument("--library", type=Path, required=True, help="CMSIS-NN as a static library, or a folder with CORE.a")
    parser.add_argument("--include", type=Path, nargs="+", required=True, help="folders of headers: Include of CMSIS-NN")
    parser.add_argument("--optimize", default="speed", help="speed, balanced, or size for the kernels of all cores")
    parser.add_argument("--networks", action="store_true", help="RAM, instructions and Flash of whole networks")
    options = parser.parse_args()
    cores = [name if name in CORES else f"cortex-{name.replace('+', 'plus')}" for name in options.cores.split(",")]
    if unknown := [core for core in cores if core not in CORES]:
        parser.error(f"no emulated core is called {unknown[0]}; known cores: {', '.join(CORES)}")
    rows = list[Row]()
    if options.networks:
        print("| model | core | by | RAM | instructions | Flash |\n|---|---|---|---:|---:|---:|")
    for core in cores:
        library = options.library / f"{core}.a" if options.library.is_dir() else options.library
        for path in options.models:
            for name, who, *sizes in networks(path, core, library, options.include) if options.networks else ():
                print(f"| {name} | {core} | {who} | {' | '.join(map(number, sizes))} |", flush=True)
            rows += () if options.networks else layers(path, core, options.optimize, library, options.include)
    if options.networks:
        return 0
    compared = [row for row in rows if row.theirs]
    print(f"| {' | '.join(COLUMNS)} | times fewer | values that differ |\n|{'---|' * 5}{'---:|' * 6}")
    for row in sorted(compared, key=lambda row: row.ratio):
        counts = " | ".join(number(count or None) for count in (*row.ours, *row.theirs))
        print(f"| {' | '.join(row[:5])} | {counts} | {row.ratio:.2f} | {row.wrong} |")
    print(f"\n| {' | '.join(SUMS)} | times fewer |\n|---|---|---:|---:|---|{'---:|' * 5}")
    for model, core in dict.fromkeys((row.model, row.core) for row in compared):
        own = [row for row in rows if (row.model, row.core) == (model, core)]
        pairs = [(row.ours, row.theirs) for row in own if row.theirs]
        others = ", ".join(sorted({row.kernel for row in own if not row.theirs})) or "-"
        ours, theirs = (Count(*map(sum, zip(*counts, strict=True))) for counts in zip(*pairs, strict=True))
        counts = " | ".join(number(count or None) for count in (*ours, *theirs))
        slower = sum(row.ratio < 1 for row in own)
        print(f"| {model} | {core} | {len(pairs)} | {slower} | {others} | {counts} | {theirs.over(ours):.2f} |")
    total = sum(row.ratio < 1 for row in compared)
    print(f"\n{len(compared)} layers compared, {total} slower than CMSIS-NN's")
    return min(total, 1) if compared else one_line.BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
