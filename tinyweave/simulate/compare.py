"""The proof: the same inputs through the reference, the host's C and the emulated core's C, every byte compared.

In: a plan, its emitted folder, samples. Out: a Verification, with the first layer, element and value that differ.
The truth is LiteRT's reference kernels on the imported file where they can be run, and the numpy reference of `ops` where
not; both are compared with each other as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import ops
from ..ir import CompileError, Graph, Tensor, array_type, limits, packed, unpacked
from ..kernels.table import foreign
from ..planning import Plan
from ..planning.fuse.access import row_bytes
from . import emulated, host
from .litert import CannotRunError
from .run import Round, Run, touched

Sample = Sequence[np.ndarray]
Arrays = list[np.ndarray]
Progress = Callable[[str, int, int], None]
Reference = Callable[[Sequence[Sample]], "list[Arrays]"]
Runner = Callable[
    [Sample, int, "Sequence[Sample | None]"], Run
]  # a sample, the fill, and the samples (None: a reset) before it

LITERT, NUMPY = "LiteRT's reference kernels", "numpy reference"


@dataclass(frozen=True, eq=False)
class Verification:
    """What was compared and what came out. compilers: where the C ran -> compiler and flags. reference: what is the truth.
    without_litert: why LiteRT's kernels had no part in it, None when they had.
    touched: where it ran -> memory -> highest arena byte written, plus one."""

    samples: int
    reference: str
    compilers: Mapping[str, str]
    arena: Mapping[str, int]
    touched: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    max_abs_diff: float = 0
    first_difference: str | None = None
    without_litert: str | None = None

    @property
    def ok(self) -> bool:
        """Every output byte is right, and the arena that was touched is the arena that was claimed, everywhere."""
        return self.first_difference is None and all(dict(self.arena) == dict(used) for used in self.touched.values())


def samples(graph: Graph, count: int, seed: int, given: Sequence[Sample] = ()) -> list[Arrays]:
    """`count` samples, never fewer than given: the given ones, then all least, all greatest, all zero point, then random.

    Inputs that may have but one value have it.
    """
    tensors, fixed = [graph.tensors[name] for name in graph.inputs], ops.fixed_inputs(graph)
    chosen = [[_fitted(tensor, array) for tensor, array in zip(tensors, sample, strict=True)] for sample in given]
    rng = np.random.default_rng(seed)
    edges = [[fixed.get(t.name, _constant(t, which)) for t in tensors] for which in ("least", "greatest", "zero")]
    chosen += edges[: max(0, min(len(edges), count - len(chosen) - 1))]
    while len(chosen) < count:
        chosen.append([fixed.get(t.name, _random(t, rng)) for t in tensors])
    return chosen


def _range(tensor: Tensor) -> tuple[float, float]:
    """The least and the greatest value of an input; floats stay in [-1, 1)."""
    if tensor.dtype == "float32":
        return -1.0, 1.0
    if tensor.dtype == "bool":
        return 0, 1
    return limits(tensor.dtype)


def _constant(tensor: Tensor, which: str) -> np.ndarray:
    low, high = _range(tensor)
    zero = tensor.zero_point if tensor.quant is not None and tensor.dtype != "float32" else 0
    return np.full(tensor.shape, {"least": low, "greatest": high, "zero": zero}[which], array_type(tensor.dtype))


def _random(tensor: Tensor, rng: np.random.Generator) -> np.ndarray:
    low, high = _range(tensor)
    if tensor.dtype == "float32":
        return rng.uniform(low, high, tensor.shape).astype(np.float32)
    return rng.integers(int(low), int(high) + 1, tensor.shape).astype(array_type(tensor.dtype))


def _fitted(tensor: Tensor, array: np.ndarray) -> np.ndarray:
    if array.dtype != array_type(tensor.dtype) or array.size != tensor.elements:
        raise CompileError(
            f"needs {tensor.dtype}{list(tensor.shape)}, the given input is {array.dtype}{list(array.shape)}",
            "give inputs of the model's own type and shape",
            tensor=tensor,
        )
    return np.ascontiguousarray(array.reshape(tensor.shape))


def verify(
    plan: Plan,
    folder: Path,
    name: str,
    cases: Sequence[Sample],
    *,
    cores: Sequence[str],
    reference: Reference | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Compare the C in `folder`, on the host and on emulated `cores`, with the reference on every sample.

    `reference` runs LiteRT's reference kernels; without it, or where it raises CannotRunError, the numpy reference alone is the
    truth, which nothing else checks.
    The first sample runs twice everywhere, over complementary noise, which shows the bytes that were touched and any read
    of what nobody wrote. Where the network has state the samples are one sequence of inferences on one memory, which must
    repeat itself after a reset.
    """
    report = progress or (lambda what, done, of: None)
    graph = plan.graph
    expected: list[Arrays] = []
    state = ops.initial_state(graph)
    for index, sample in enumerate(cases):
        report(NUMPY, index, len(cases))
        values = ops.run(graph, dict(zip(graph.inputs, sample, strict=True)), state=state)
        expected.append([values[output] for output in graph.outputs])
    truth, worst, first, without = NUMPY, 0.0, None, "it was not asked"
    if reference is not None:
        report(LITERT, 0, 1)
        try:
            outputs = reference(cases)
        except CannotRunError as error:
            without = str(error)
        else:
            worst, first = _differ(graph, outputs, expected, f"the {NUMPY}")
            truth, without = f"{LITERT}, {'unlike' if first else 'equal to'} {NUMPY}", None
            expected = outputs
    runners: dict[str, tuple[str, Runner]] = {"host": _host_runner(plan, folder, name)}
    runners |= {core: _core_runner(plan, folder, name, core) for core in cores}
    used: dict[str, Mapping[str, int]] = {}
    for place, (_, run) in runners.items():
        outputs, used[place] = _run_all(graph, cases, run, lambda index, place=place: report(place, index, len(cases)))
        diff, text = _differ(graph, expected, outputs[: len(cases)], f"the C on {place}")
        if text is not None and first is None:
            bad = _first_bad(expected, outputs)
            earlier = cases[:bad] if state else ()
            layer = first_layer(plan, folder, name, cases[bad], None if place == "host" else place, earlier=earlier)
            first = f"{text}; {layer}"
        worst = max(worst, diff)
        if state and text is None:
            diff, text = _differ(graph, expected, outputs[len(cases) :], f"the C on {place}, after a reset,")
            worst, first = max(worst, diff), first or text
    report("compared", len(cases), len(cases))
    compilers = {place: compiler for place, (compiler, _) in runners.items()}
    return Verification(len(cases), truth, compilers, plan.arena, used, worst, first, without)


def _run_all(
    graph: Graph, cases: Sequence[Sample], run: Runner, tell: Callable[[int], None]
) -> tuple[list[Arrays], dict[str, int]]:
    """(outputs per case, memory -> bytes touched). With state: of all cases in sequence, then again after a reset."""
    if ops.initial_state(graph):
        tell(0)
        rounds = [*cases, None, *cases[:-1]]
        first, second = (run(cases[-1], fill, rounds) for fill in (0, 1))
        return unpack_all(graph, first), touched(first, second)
    outputs, used = [], {}
    for index, sample in enumerate(cases):
        tell(index)
        result = run(sample, 0, ())
        if index == 0:
            used = touched(result, run(sample, 1, ()))
        outputs.append(unpack(graph, result))
    return outputs, used


def pack(graph: Graph, sample: Sample) -> list[bytes]:
    """A sample as the bytes that the C takes."""
    types = [graph.tensors[name].dtype for name in graph.inputs]
    values = (packed(array) if dtype == "int4" else array for dtype, array in zip(types, sample, strict=True))
    return [np.ascontiguousarray(array).tobytes() for array in values]


def unpack(graph: Graph, run: Run) -> Arrays:
    """The outputs of a run as arrays."""
    return _arrays(graph, run.outputs)


def unpack_all(graph: Graph, run: Run) -> list[Arrays]:
    """The outputs of all inferences of a run as arrays."""
    return [_arrays(graph, raw) for raw in (*run.earlier, run.outputs)]


def _arrays(graph: Graph, outputs: Sequence[bytes]) -> Arrays:
    tensors = [graph.tensors[name] for name in graph.outputs]
    return [_array(raw, tensor) for raw, tensor in zip(outputs, tensors, strict=True)]


def _array(raw: bytes, tensor: Tensor) -> np.ndarray:
    if tensor.dtype == "int4":
        pixels = np.frombuffer(raw, np.int8).reshape(*tensor.shape[:-1], tensor.pixel_bytes)
        array, channels = unpacked(pixels, 2 * tensor.pixel_bytes), (1, *tensor.shape)[-1]
        if array[..., channels:].any():
            raise ValueError(f"the half byte behind the channels of '{tensor.name}' is not 0")
        return array[..., :channels].reshape(tensor.shape)
    return np.frombuffer(raw, tensor.dtype).reshape(tensor.shape)


def by_rows(plan: Plan) -> dict[str, dict[int, int]]:
    """`invoke`'s arguments of these names: input that comes by rows, or output that is handed out so -> bytes of a row."""
    graph = plan.graph
    ends = {"streamed": (graph.inputs, plan.streamed), "handed": (graph.outputs, plan.handed)}
    return {
        key: {index: row_bytes(graph.tensors[name]) for index, name in enumerate(names) if name in chosen}
        for key, (names, chosen) in ends.items()
    }


def core_build(plan: Plan, folder: Path, name: str, core: str, *, trace: bool = False) -> emulated.Firmware:
    """The C of a plan built for `core`, in plain C where its kernels are for another one."""
    return emulated.build(folder, name, core, trace=trace, plain=bool(foreign(plan.variants, core)))


def output_bytes(graph: Graph) -> list[int]:
    return [graph.tensors[name].bytes for name in graph.outputs]


def _host_runner(plan: Plan, folder: Path, name: str) -> tuple[str, Runner]:
    library = host.build(folder, name)
    graph, sizes = plan.graph, output_bytes(plan.graph)
    return library.compiler, lambda sample, fill, earlier: host.invoke(
        library, plan.arena, pack(graph, sample), sizes, fill=fill, earlier=_rounds(graph, earlier), **by_rows(plan)
    )


def _core_runner(plan: Plan, folder: Path, name: str, core: str) -> tuple[str, Runner]:
    firmware = core_build(plan, folder, name, core)
    graph, sizes = plan.graph, output_bytes(plan.graph)
    return firmware.compiler, lambda sample, fill, earlier: emulated.invoke(
        firmware, plan.arena, pack(graph, sample), sizes, fill=fill, earlier=_rounds(graph, earlier), **by_rows(plan)
    )


def _rounds(graph: Graph, samples: Sequence[Sample | None]) -> list[Round]:
    return [None if sample is None else pack(graph, sample) for sample in samples]


def _differ(graph: Graph, expected: list[Arrays], got: list[Arrays], who: str) -> tuple[float, str | None]:
    """(largest absolute difference, the first difference in words or None)."""
    worst, first = 0.0, None
    for case, (truth, outputs) in enumerate(zip(expected, got, strict=True)):
        for name, want, have in zip(graph.outputs, truth, outputs, strict=True):
            text = difference(want, have)
            if text is None:
                continue
            with np.errstate(invalid="ignore"):
                worst = max(worst, float(np.nanmax(np.abs(have.astype(np.float64) - want.astype(np.float64)))))
            if first is None:
                first = f"{who} differs in output '{name}' of sample {case}: {text}"
    return worst, first


def difference(want: np.ndarray, have: np.ndarray) -> str | None:
    """Where two arrays first differ in a byte, or None."""
    if want.tobytes() == have.tobytes():
        return None
    raw = want.dtype.itemsize
    unequal = np.frombuffer(want.tobytes(), np.uint8) != np.frombuffer(have.tobytes(), np.uint8)
    flat = int(np.flatnonzero(unequal)[0]) // raw
    count = int(unequal.reshape(-1, raw).any(axis=1).sum())
    at = tuple(int(i) for i in np.unravel_index(flat, want.shape)) if want.shape else ()
    got, wanted = have.reshape(-1)[flat], want.reshape(-1)[flat]
    return f"{count} of {want.size} elements, the first at {list(at)}: {got} instead of {wanted}"


def _first_bad(expected: list[Arrays], got: list[Arrays]) -> int:
    return next(
        case
        for case, (truth, outputs) in enumerate(zip(expected, got, strict=True))
        if any(a.tobytes() != b.tobytes() for a, b in zip(truth, outputs, strict=True))
    )


def first_layer(
    plan: Plan, folder: Path, name: str, sample: Sample, core: str | None, *, earlier: Sequence[Sample] = ()
) -> str:
    """In words, the first layer whose output in the C differs from the numpy reference on one sample, after earlier ones."""
    graph = plan.graph
    state = ops.initial_state(graph)
    for before in earlier:
        ops.run(graph, dict(zip(graph.inputs, before, strict=True)), state=state)
    values = ops.run(graph, dict(zip(graph.inputs, sample, strict=True)), keep=True, state=state)
    wanted = [
        (step, output)
        for step, stage in enumerate(plan.stages)
        for output in graph.ops[stage.ops[-1]].outputs
        if plan.variants[stage.ops[-1]]
        and graph.producer[output] == stage.ops[-1]  # state that changes again is known at the end
    ]
    whole = [(step, t) for step, t in wanted if t not in plan.handed]
    dump = [(step, plan.memory(t), plan.offset(t), graph.tensors[t].bytes) for step, t in whole]
    options: dict[str, Any] = {"earlier": _rounds(plan.graph, earlier), "dump": dump, **by_rows(plan)}
    if core is None:
        program = host.build(folder, name, trace=True)
        run = host.invoke(program, plan.arena, pack(graph, sample), output_bytes(graph), **options)
    else:
        firmware = core_build(plan, folder, name, core, trace=True)
        run = emulated.invoke(firmware, plan.arena, pack(graph, sample), output_bytes(graph), **options)
    raw = dict(zip((t for _, t in whole), run.dumps, strict=True))
    raw |= {t: given for t, given in zip(graph.outputs, run.outputs, strict=True) if t in plan.handed}
    for step, output in wanted:
        tensor = graph.tensors[output]
        text = difference(values[output], _array(raw[output], tensor))
        if text is not None:
            op = graph.ops[plan.stages[step].ops[-1]]
            return f"the first layer that differs is {op.name} ({op.kind}), step {step + 1} of {len(plan.stages)}: {text}"
    return "no layer differs from the numpy reference"
