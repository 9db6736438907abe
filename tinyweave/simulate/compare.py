"""Verify the emitted C: run the same inputs through the reference and through the C, and compare every output byte.

In: a plan, the folder of its C, samples (one array per network input). Out: a Verification, with the first layer, element and
value that differ. The reference is LiteRT's reference kernels on the imported file if LiteRT can run it, else the numpy
reference of `ops`; the two are also compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .. import ops
from ..ir import CompileError, Graph, Tensor, array_type, channels_last, limits
from ..ops.quantization import quantized
from ..planning import Plan, Progress
from ..support.media import check_finite
from .litert import CannotRunError
from .run import Inference, touched
from .target import HOST, Build, Caches, Run, build, invoke, with_trace
from .target import output_bytes as output_bytes  # noqa: PLC0414 - part of this module's API, with `pack`, to run a build by hand

Sample = Sequence[np.ndarray]
Arrays = list[np.ndarray]
Reference = Callable[[Sequence[Sample]], "list[Arrays]"]

LITERT, NUMPY = "LiteRT's reference kernels", "numpy reference"


@dataclass(frozen=True, eq=False)
class Verification:
    """The comparison of a plan's C, on all targets, with the reference; `touched` is the arena bytes used per memory there."""

    samples: int  # number of samples
    reference: str  # name of the reference, for reports
    compilers: Mapping[str, str]  # target -> compiler and flags
    arena: Mapping[str, int]  # memory -> bytes that the plan claims
    touched: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    max_abs_diff: float = 0  # largest absolute difference of the C, or of the numpy reference, from the reference
    first_difference: str | None = None  # description of the first difference; None if all outputs are equal
    without_litert: str | None = None  # why LiteRT's kernels were not used; None if they were

    @property
    def ok(self) -> bool:
        """Return whether all output bytes are right and each target wrote exactly as much of the arena as the plan claims."""
        return self.first_difference is None and all(dict(self.arena) == dict(used) for used in self.touched.values())


def samples(graph: Graph, count: int, seed: int, inputs: Sequence[Sample] = ()) -> list[Arrays]:
    """Return `count` samples to verify a network with, each one array per network input.

    `inputs` come first, all of them. Then follow up to three constant samples (minima, maxima, zero points), then random
    samples, at least one if `inputs` has fewer than `count`. A network input with one legal value (the output shape of a
    transpose_conv) has it in generated samples. Indices, such as tokens, are within the tensor that they index.
    """
    tensors, fixed, extents = [graph.tensors[name] for name in graph.inputs], ops.fixed_inputs(graph), ops.index_extents(graph)
    chosen = [
        [_fitted(tensor, array, f"sample {number}") for tensor, array in zip(tensors, sample, strict=True)]
        for number, sample in enumerate(inputs)
    ]
    rng = np.random.default_rng(seed)
    edges = [[fixed.get(t.name, _constant(t, which, extents)) for t in tensors] for which in ("least", "greatest", "zero")]
    chosen += edges[: max(0, min(len(edges), count - len(chosen) - 1))]
    while len(chosen) < count:
        chosen.append([fixed.get(t.name, _random(t, rng, extents)) for t in tensors])
    return chosen


def _range(tensor: Tensor, extents: Mapping[str, int]) -> tuple[float, float]:
    """Return (least, greatest) of generated values, inclusive, but not 1.0 for floats; `extents` as of `ops.index_extents`."""
    if tensor.name in extents:
        return 0, extents[tensor.name] - 1
    return {"float32": (-1.0, 1.0), "bool": (0, 1)}.get(tensor.dtype) or limits(tensor.dtype)


def _constant(tensor: Tensor, which: str, extents: Mapping[str, int]) -> np.ndarray:
    low, high = _range(tensor, extents)
    zero = tensor.zero_point if tensor.quant is not None and tensor.dtype != "float32" else 0
    return np.full(tensor.shape, {"least": low, "greatest": high, "zero": zero}[which], array_type(tensor.dtype))


def _random(tensor: Tensor, rng: np.random.Generator, extents: Mapping[str, int]) -> np.ndarray:
    low, high = _range(tensor, extents)
    if tensor.dtype == "float32":
        return rng.uniform(low, high, tensor.shape).astype(np.float32)
    return rng.integers(int(low), int(high) + 1, tensor.shape).astype(array_type(tensor.dtype))


def _fitted(tensor: Tensor, array: np.ndarray, what: str) -> np.ndarray:
    """Return a sample, `what` in messages, in the type of an input: floats are quantised, channels moved last."""
    check_finite(array, what, tensor)
    if array.dtype.kind == "f":
        array = array.astype(np.float32)
        array = array if tensor.quant is None or tensor.dtype == "float32" else quantized(array, tensor)
    values = channels_last(array, tensor)
    if array.dtype != array_type(tensor.dtype) or values is None:
        raise CompileError(
            f"needs {tensor.dtype}{list(tensor.shape)}, but the input is {array.dtype}{list(array.shape)}",
            "give inputs of this shape, in the model's own type or as floats, which are quantised",
            tensor=tensor,
        )
    return np.ascontiguousarray(values)


@dataclass(frozen=True, eq=False)
class Truth:
    """The reference outputs, and their largest difference to numpy's; `without_litert` says why they are numpy's themselves."""

    outputs: list[Arrays]  # [sample][network output]
    reference: str  # name of the reference, for reports
    max_abs_diff: float  # largest absolute difference between LiteRT's and numpy's outputs
    difference: str | None  # description of the first difference between LiteRT's and numpy's outputs
    without_litert: str | None  # why LiteRT's kernels were not used; None if they were


def verify(
    plan: Plan,
    folder: Path,
    name: str,
    cases: Sequence[Sample],
    *,
    cores: Sequence[str],
    outside: Graph | None = None,
    right: Truth | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Compare the C in `folder`, on the host and on emulated `cores`, with the reference outputs (`right`) of every sample."""
    report = progress or (lambda what, done, of: None)
    right, builds = right or truth(outside or plan.graph, cases, progress=progress), []
    for target in (HOST, *cores):
        report(f"building for {place_of(target)}", 0, 1)
        builds.append(build(plan, folder, name, target, outside=outside))
    return verdict(right, cases, [run_samples(built, cases, progress=progress) for built in builds], progress)


def truth(graph: Graph, cases: Sequence[Sample], reference: Reference | None = None, progress: Progress | None = None) -> Truth:
    """Compute the reference outputs of all samples, by `reference` (LiteRT) or, if it cannot, numpy; compare both."""
    report = progress or (lambda what, done, of: None)
    expected: list[Arrays] = []
    state = ops.initial_state(graph)
    for index, sample in enumerate(cases):
        report(f"running the {NUMPY}", index, len(cases))
        values = ops.run(graph, dict(zip(graph.inputs, sample, strict=True)), state=state)
        expected.append([values[output] for output in graph.outputs])
    if reference is None:
        return Truth(expected, NUMPY, 0.0, None, "it was not requested")
    report(f"running {LITERT}", 0, 1)
    try:
        outputs = [ops.defined(graph, each) for each in reference(cases)]
    except CannotRunError as error:
        return Truth(expected, NUMPY, 0.0, None, str(error))
    worst, first, _ = _differ(graph, outputs, expected, f"the {NUMPY}")
    return Truth(outputs, f"{LITERT}, {'different from' if first else 'equal to'} {NUMPY}", worst, first, None)


def run_samples(
    built: Build, cases: Sequence[Sample], *, caches: Caches | None = None, progress: Progress | None = None
) -> Run:
    """Run a build on each sample, on memories that are filled with noise before.

    Each sample runs on fresh memories, or, with state, all in sequence and again after a reset. The first, or the sequence,
    runs once more on complementary noise, to find the arena bytes that were written. `caches` of the emulated core count their
    misses for the first sample; None simulates none.
    """
    report, title = progress or (lambda what, done, of: None), f"running on {place_of(built.target)}"
    packed = [pack(sample) for sample in cases]
    report(title, 0, len(cases))
    first = invoke(built, packed[0]) if caches is None else invoke(built, packed[0], caches=caches)
    if ops.initial_state(built.plan.graph):
        whole, second = (invoke(built, packed[-1], fill=n, earlier=[*packed, None, *packed[:-1]]) for n in (0, 1))
        return Run(built, [*whole.earlier, whole.outputs], packed[0], first, touched(whole, second))
    used = touched(first, invoke(built, packed[0], fill=1))
    outputs = [first.outputs]
    for index, sample in enumerate(packed[1:], 1):
        report(title, index, len(cases))
        outputs.append(invoke(built, sample).outputs)
    return Run(built, outputs, packed[0], first, used)


def place_of(target: str) -> str:
    """Return where the C for a target runs, in words: "this machine", or "the emulated cortex-m4"."""
    return "this machine" if target == HOST else f"the emulated {target}"


def verdict(right: Truth, cases: Sequence[Sample], runs: Sequence[Run], progress: Progress | None = None) -> Verification:
    """Compare the outputs of builds with the reference, twice for a network with state: before and after a reset."""
    plan, worst, first = runs[0].build.plan, right.max_abs_diff, right.difference
    graph = runs[0].build.outside
    for done in runs:
        outputs, place = [_arrays(graph, raw) for raw in done.outputs], done.build.target
        diff, text, bad = _differ(graph, right.outputs, outputs[: len(cases)], f"the C on {place}")
        if text is not None and first is None:
            earlier = cases[:bad] if ops.initial_state(graph) else ()
            first = f"{text}; {first_layer(done.build, cases[bad], earlier=earlier)}"
        worst = max(worst, diff)
        if len(outputs) > len(cases) and text is None:
            diff, text, _ = _differ(graph, right.outputs, outputs[len(cases) :], f"the C on {place}, after a reset,")
            worst, first = max(worst, diff), first or text
    if progress:
        progress("comparing", len(cases), len(cases))
    return Verification(
        samples=len(cases),
        reference=right.reference,
        compilers={done.build.target: done.build.compiler for done in runs},
        arena=plan.arena,
        touched={done.build.target: done.touched for done in runs},
        max_abs_diff=worst,
        first_difference=first,
        without_litert=right.without_litert,
    )


def pack(arrays: Sample) -> list[bytes]:
    """Return the bytes of network inputs or outputs, one array each, as the C has them."""
    return [array.tobytes() for array in arrays]


def unpack_all(graph: Graph, run: Inference) -> list[Arrays]:
    """Return the network outputs of all inferences of a run as arrays [inference][output]: the earlier ones, then the last."""
    return [_arrays(graph, raw) for raw in (*run.earlier, run.outputs)]


def _arrays(graph: Graph, outputs: Sequence[bytes]) -> Arrays:
    return [_array(raw, graph.tensors[name]) for raw, name in zip(outputs, graph.outputs, strict=True)]


def _array(raw: bytes, tensor: Tensor) -> np.ndarray:
    return np.frombuffer(raw, tensor.dtype).reshape(tensor.shape)


def _differ(graph: Graph, expected: list[Arrays], got: list[Arrays], who: str) -> tuple[float, str | None, int]:
    """Compare outputs, [sample][network output]; return the largest difference, the first as text or None, its sample."""
    worst, first, bad = 0.0, None, 0
    for case, (truth, outputs) in enumerate(zip(expected, got, strict=True)):
        for name, want, have in zip(graph.outputs, truth, outputs, strict=True):
            text = difference(want, have)
            if text is None:
                continue
            with np.errstate(invalid="ignore"):
                worst = max(worst, float(np.nanmax(np.abs(have.astype(np.float64) - want.astype(np.float64)))))
            if first is None:
                first, bad = f"{who} differs in output '{name}' of sample {case}: {text}", case
    return worst, first, bad


def difference(want: np.ndarray, have: np.ndarray) -> str | None:
    """Return a description of the first element whose bytes differ between two arrays; None if all bytes are equal."""
    if want.tobytes() == have.tobytes():
        return None
    unequal = np.frombuffer(want.tobytes(), np.uint8) != np.frombuffer(have.tobytes(), np.uint8)
    places = np.flatnonzero(unequal.reshape(-1, want.dtype.itemsize).any(axis=1))
    at = [int(i) for i in np.unravel_index(places[0], want.shape)] if want.shape else []
    got, wanted = have.reshape(-1)[places[0]], want.reshape(-1)[places[0]]
    return f"{len(places)} of {want.size} elements, the first at {at}: {got} instead of {wanted}"


def first_layer(built: Build, sample: Sample, *, earlier: Sequence[Sample] = ()) -> str:
    """Return the first layer, not inside a fused stage, whose output in the C differs from numpy's, after `earlier` samples."""
    plan, graph, outside = built.plan, built.plan.graph, built.outside
    state = ops.initial_state(graph)
    for before in earlier:
        ops.run(outside, dict(zip(outside.inputs, before, strict=True)), state=state)
    values = ops.run(outside, dict(zip(outside.inputs, sample, strict=True)), keep=True, state=state)
    wanted = [
        (step, output)
        for step, stage in enumerate(plan.stages)
        for output in graph.ops[stage.ops[-1]].outputs
        if plan.variants[stage.ops[-1]]
        and graph.producer[output] == stage.ops[-1]  # of state that changes several times, numpy keeps the last value only
    ]
    whole = [(step, t) for step, t in wanted if t not in plan.streamed_outputs]
    dump = [(step, plan.memory(t), plan.offset(t), graph.tensors[t].bytes) for step, t in whole]
    run = invoke(with_trace(built), pack(sample), earlier=[pack(before) for before in earlier], dump=dump)
    raw = dict(zip((t for _, t in whole), run.dumps, strict=True))
    streamed = {t: name for t, name in zip(graph.outputs, outside.outputs, strict=True) if t in plan.streamed_outputs}
    raw |= {t: output for t, output in zip(graph.outputs, run.outputs, strict=True) if t in streamed}
    for step, output in wanted:
        name = streamed.get(output, output)
        text = difference(values[name], _array(raw[output], outside.tensors[name]))
        if text is not None:
            op = graph.ops[plan.stages[step].ops[-1]]
            return f"the first layer that differs is {op.name} ({op.kind}), step {step + 1} of {len(plan.stages)}: {text}"
    return "no layer differs from the numpy reference"
