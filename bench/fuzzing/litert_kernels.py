"""For which types and scales do LiteRT's reference kernels compute what tinyweave computes?

Every kind of op, and every kind that the importer rewrites, is tried with every combination of types of its inputs, constants,
state and outputs that tinyweave accepts, each also with the scale of one input or output doubled, on its cases. Out:
a line for each combination that LiteRT computes otherwise than numpy, or refuses; then the counts. Exit code 1 if LiteRT
differs where DIFFERENCES does not say so: then verify would blame the C.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from cases.ops import GENERATORS, cases  # noqa: E402
from fuzz import lowered  # noqa: E402

from tinyweave import ops  # noqa: E402
from tinyweave.exporters.tflite import to_tflite  # noqa: E402
from tinyweave.importers.tflite import from_tflite  # noqa: E402
from tinyweave.ir import CompileError, Graph, Quant, Tensor, limits, verify  # noqa: E402
from tinyweave.kernels.table import without_kernel  # noqa: E402
from tinyweave.ops.litert_differences import difference  # noqa: E402
from tinyweave.passes import run_passes  # noqa: E402
from tinyweave.simulate import compare, litert  # noqa: E402

TYPES = ("int8", "uint8", "int16", "int32", "int64", "bool", "float32")
SCALED = ("int8", "uint8", "int16")
RANGES = {"bool": (0, 1), "float32": (-127, 127)}


def retyped(tensor: Tensor, dtype: str) -> Tensor:
    """Return a tensor of another type, with values and a zero point that it can hold."""
    if tensor.dtype == dtype:
        return tensor
    low, high = RANGES.get(dtype) or limits(dtype)
    data = None if tensor.data is None else np.clip(tensor.data.astype(np.float64), low, high).astype(dtype)
    quant = (tensor.quant or Quant((0.0625,), (0,))) if dtype in SCALED or data is not None else None
    if quant is not None and dtype in SCALED:
        zeros = tuple(0 if dtype == "int16" else min(max(zero, low), high) for zero in quant.zero_point)
        quant = replace(quant, zero_point=zeros)
    return replace(tensor, dtype=dtype, data=data, quant=quant)


def variants(graph: Graph) -> Iterator[Graph]:
    """Yield a graph with every type for its inputs, constants, state and outputs, alike where they were alike."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, tensor in graph.tensors.items():
        role = "output" if name in graph.outputs else tensor.role
        groups.setdefault((tensor.dtype, role), []).append(name)
    for chosen in itertools.product(TYPES, repeat=len(groups)):
        pairs = [(name, dtype) for names, dtype in zip(groups.values(), chosen, strict=True) for name in names]
        yield replace(graph, tensors={name: retyped(graph.tensors[name], dtype) for name, dtype in pairs})


def rescaled(graph: Graph) -> Iterator[Graph]:
    """Yield a graph, and it with the scale of each input and output doubled."""
    yield graph
    for name in dict.fromkeys((*graph.inputs, *graph.outputs)):
        tensor = graph.tensors[name]
        if tensor.quant is not None and not tensor.quant.per_channel:
            other = replace(tensor, quant=replace(tensor.quant, scale=(2 * tensor.quant.scale[0],)))
            yield replace(graph, tensors=graph.tensors | {name: other})


def accepted(graph: Graph) -> bytes | None:
    """Return the file of a graph that is accepted, None for another one."""
    try:
        file = to_tflite(verify(graph))
        imported, _ = run_passes(from_tflite(file, "network"), io="model")
        return None if without_kernel(imported) else file
    except CompileError:
        return None


def outcome(file: bytes) -> str:
    """Return how LiteRT does on a file: equal to numpy (floats: nearly), different, or refused and why."""
    graph, _ = run_passes(from_tflite(file, "network"), io="model")
    samples = compare.samples(graph, 4, 1)
    try:
        runs = litert.run(file, samples)
    except CompileError as error:
        return f"refused: {error.why[:110]}"
    state = ops.initial_state(graph)
    for sample, run in zip(samples, runs, strict=True):
        made = ops.run(graph, dict(zip(graph.inputs, sample, strict=True)), state=state)
        for name, theirs in zip(graph.outputs, run.outputs, strict=True):
            ours, is_float = made[name], theirs.dtype == np.float32
            if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
                return "differs"
            bound = 1e-5 * max(1.0, float(np.abs(ours).max(initial=0))) if is_float else 0
            if not (np.allclose(ours, theirs, 1e-4, bound, equal_nan=True) if is_float else np.array_equal(ours, theirs)):
                return "differs"
    return "equal"


def types_of(graph: Graph, kind: str) -> str:
    """Return the types of the op of a kind, and whether inputs and outputs share their scales, in words."""
    op = next(op for op in graph.ops if op.kind == kind)
    reads, makes = ([t.dtype if t is not None else "-" for t in some] for some in (graph.inputs_of(op), graph.outputs_of(op)))
    quants = {graph.tensors[name].quant for name in (*graph.inputs, *graph.outputs)} - {None}
    return f"{' '.join(reads[:6])} -> {' '.join(makes[:2])}{', other scales' * (len(quants) > 1)}"


def tried(kind: str, each: int, step: int) -> Iterator[tuple[str, str, bool]]:
    """Yield the types of accepted graphs, the outcome, and whether LiteRT is known to misread them."""
    seen = Counter[str]()
    drawn = lowered.LITERT.get(kind) or lowered.NUMPY.get(kind)
    graphs = [graph for _, graph in drawn(np.random.default_rng(0))] if drawn else [case.graph for case in cases(kind)]
    for plain in itertools.islice(graphs, 0, None, step):
        for graph in itertools.chain.from_iterable(map(rescaled, variants(plain))):
            types = types_of(graph, kind)
            file = accepted(graph) if seen[types] < each else None
            if file is not None:
                seen[types] += 1
                imported = from_tflite(file, "network")
                yield types, outcome(file), any(difference(imported, op) is not None for op in imported.ops)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what differs or is refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="all kinds if left out")
    parser.add_argument("--each", type=int, default=3, help="cases of a combination of types")
    parser.add_argument("--step", type=int, default=4, help="take every N-th case")
    options = parser.parse_args(arguments)
    counts, wrong = Counter[str](), 0
    for kind in options.kinds or sorted({*GENERATORS, *lowered.LITERT, *lowered.NUMPY}):
        found = Counter(tried(kind, options.each, options.step))
        for (types, said, misread), count in found.items():
            counts[said.partition(":")[0]] += count
            wrong += said == "differs" and not misread
            if said != "equal":
                print(f"{kind} {types}: {said}{', as is known' * (misread and said == 'differs')} ({count})", flush=True)
    print(", ".join(f"{count:,} {said}" for said, count in sorted(counts.items())) + f"; {wrong} unforeseen")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
