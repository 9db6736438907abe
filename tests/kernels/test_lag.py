"""Every lag of the table is safe, and as small as it claims to be.

Each generated case runs once per input that has a lag, with its output that far below the input and all else apart, and gives
the bytes of a run apart. One element less, and cases differ.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from cases.draw import constant
from cases.ops import INT4, INT4_KINDS, Case, cases
from codegen.test_kinds import compilable, union

from tinyweave import ops
from tinyweave.codegen import Origin, emit
from tinyweave.ir import Graph, Op, Quant, Tensor, array_type, itemsize, limits, verify
from tinyweave.kernels.lag import NEVER, first_pixels
from tinyweave.kernels.table import VARIANTS, VIEWS, Variant, variant_for
from tinyweave.ops.spec import Window
from tinyweave.passes import run_passes
from tinyweave.plan import Buffer, Place, Plan, Stage, plan, scratch_name
from tinyweave.simulate import compare, host

TRIALS, SAMPLES = 60, 30
APART = {"gather_nd", "svdf", "read_variable", "assign_variable"}  # their kernels have no lags
SEVERAL = {"split", "split_v", "unpack"}  # outputs
REPEATING = {"broadcast_to", "mirror_pad"}  # may write an element over itself, which would be safe closer
GAP, ALIGN = 64, 8
CORES = ("cortex-m4", "cortex-m55")
KINDS = [(kind, "", False) for kind in sorted({kind for row in VARIANTS for kind in row.kinds} - APART - SEVERAL - set(VIEWS))]
KINDS += [(INT4 + kind, "", False) for kind in INT4_KINDS if kind not in VIEWS]
KINDS += [
    (kind, core, False) for core in CORES for kind in sorted({k for row in VARIANTS if core in row.cores for k in row.kinds})
]
KINDS += [(INT4 + "conv_2d", CORES[0], False), ("conv_2d", CORES[0], True)]  # the last one: kernels for more Flash


class Trial(NamedTuple):
    """A case with the kernel that a core has for it, and which input the output overlaps."""

    case: Case
    row: Variant
    index: int

    @property
    def lag(self) -> int:
        return self.row.lag(self.case.graph, self.case.graph.ops[0])[self.index]


def up(size: int, align: int) -> int:
    return -(-size // align) * align


def trials(kind: str, core: str, roomy: bool) -> Iterator[Trial]:
    """Of all cases, or with a core of those that kernels for it alone run, or such that need more Flash."""
    for case in compilable(kind):
        graph, op = case.graph, case.graph.ops[0]
        row = variant_for(graph, op, core, roomy=roomy)
        if (core and not row.cores) or (roomy and row is variant_for(graph, op, core)):
            continue
        if sum(graph.tensors[name].role != "state" for name in op.outputs) != 1 or not graph.output(op).bytes:
            continue
        for index in row.lag(graph, op):
            tensor = graph.input(op, index)
            if tensor.data is None and tensor.bytes and op.inputs.count(tensor.name) == 1:
                yield Trial(case, row, index)


def overlapped(chosen: Sequence[Trial], less: int) -> Plan:
    """A plan of all trials side by side, each output its lag below its input, or `less` elements closer; nobody checks it."""
    graph = union("overlapped", [trial.case for trial in chosen])
    sizes, offsets, begin = {}, {}, 0
    for trial, op in zip(chosen, graph.ops, strict=True):
        x, out = graph.input(op, trial.index), graph.output(op)
        lag, element = trial.lag, itemsize(out.dtype)
        offsets[x.name] = begin + up(lag + element, ALIGN)
        offsets[out.name] = offsets[x.name] - up(lag, element) + less * element
        begin = up(max(offsets[x.name] + x.bytes, offsets[out.name] + out.bytes) + GAP, ALIGN)
        rest = [name for name in (*op.inputs, *op.outputs) if name is not None and graph.tensors[name].data is None]
        sizes |= {name: graph.tensors[name].bytes for name in rest}
        sizes |= {scratch_name(op.name): scratch} if (scratch := trial.row.scratch(graph, op)) else {}
        for name in (name for name in sizes if name not in offsets):
            offsets[name] = begin
            begin = up(begin + sizes[name] + GAP, ALIGN)
    buffers = [Buffer(name, size, 0, len(graph.ops), 1) for name, size in sizes.items()]
    return Plan(
        graph=graph,
        stages=tuple(Stage((index,)) for index in range(len(graph.ops))),
        variants=tuple(trial.row.name for trial in chosen),
        buffers=tuple(buffers),
        places={name: Place(name) for name in sizes if name in graph.tensors},
        offsets=offsets,
        arena={"sram": begin},
        scratch=0,
        lower_bound=0,
    )


def outputs(plan: Plan, folder: Path, rounds: Sequence[Sequence[np.ndarray]]) -> list[list[bytes]]:
    """Per round the bytes of every output, of runs on one memory."""
    folder.mkdir()
    for file, text in emit(plan, plan.graph.name, Origin("cases.tflite", "0" * 64)).files.items():
        (folder / file).write_text(text)
    program = host.build(folder, plan.graph.name)
    *earlier, last = (compare.pack(plan.graph, arrays) for arrays in rounds)
    run = host.invoke(program, plan.arena, last, compare.output_bytes(plan.graph), earlier=earlier)
    return [[array.tobytes() for array in arrays] for arrays in compare.unpack_all(plan.graph, run)]


def drawn(case: Case, rng: np.random.Generator) -> list[np.ndarray]:
    """Integers of all values; floats as the cases have them."""
    arrays = []
    for number, name in enumerate(case.graph.inputs):
        tensor = case.graph.tensors[name]
        if tensor.dtype in ("float32", "bool"):
            arrays.append(rng.permutation(case.inputs[0][number].ravel()).reshape(tensor.shape))
        else:
            arrays.append(rng.integers(*limits(tensor.dtype), tensor.shape, array_type(tensor.dtype), endpoint=True))
    return arrays


@pytest.mark.parametrize(("kind", "core", "roomy"), KINDS)
def test_lag_is_safe_and_tight(kind: str, core: str, roomy: bool, tmp_path: Path) -> None:
    found = trials(kind, core, roomy)
    if kind.startswith(INT4):  # few of its values show what they were computed from
        chosen = sorted(found, key=lambda trial: bool(trial.lag) and responsive(trial.case))[-TRIALS:]
    else:
        chosen = list(found)[-TRIALS:] if core else list(itertools.islice(found, TRIALS))
    assert len(chosen) >= 8
    rng = np.random.default_rng(0)
    rounds = [[drawn(case, rng) for case, _, _ in chosen] for _ in range(SAMPLES)]
    states = [ops.initial_state(case.graph) for case, _, _ in chosen]
    expected = [
        [
            [values[name].tobytes() for name in case.graph.outputs]
            for (case, _, _), state, x in zip(chosen, states, arrays, strict=True)
            for values in [ops.run(case.graph, dict(zip(case.graph.inputs, x, strict=True)), state=state)]
        ]
        for arrays in rounds
    ]
    flat = [[array for arrays in each for array in arrays] for each in rounds]
    at, closer = (outputs(overlapped(chosen, less), tmp_path / str(less), flat) for less in (0, 1))
    found_tight, cursor = set(), 0
    for number, trial in enumerate(chosen):
        end = cursor + len(trial.case.graph.outputs)
        for sample in range(SAMPLES):
            assert at[sample][cursor:end] == expected[sample][number], f"{trial.case.id}, input {trial.index}, lag {trial.lag}"
            if closer[sample][cursor:end] != expected[sample][number]:
                found_tight.add(number)
        cursor = end
    # an element that is overwritten too early shows only where its weight and its new value matter
    claimed = [number for number, trial in enumerate(chosen) if trial.lag and responsive(trial.case)]
    missed = [chosen[number] for number in claimed if number not in found_tight]
    loose = [f"{trial.case.id}, input {trial.index}, lag {trial.lag}" for trial in missed]
    assert kind in REPEATING or len(loose) <= len(claimed) // 5, f"not shown to be tight: {loose}"
    assert len(claimed) >= 3 or not any(trial.lag for trial in chosen)


def responsive(case: Case) -> bool:
    """Whether every output channel takes many values: one that saturates does not show what it was computed from."""
    rng, graph = np.random.default_rng(1), case.graph
    if not graph.output(graph.ops[0]).shape:
        return False
    runs = (
        ops.run(graph, dict(zip(graph.inputs, drawn(case, rng), strict=True)), state=ops.initial_state(graph)) for _ in range(8)
    )
    seen = [values[graph.outputs[0]] for values in runs]
    channels = np.stack(seen).reshape(-1, seen[0].shape[-1]).T
    return all(len(np.unique(channel)) >= min(5, len(channel) // 2) for channel in channels)


def dense_uint8(rng: np.random.Generator, sizes: Sequence[int]) -> Graph:
    """Return uint8 dense layers in a row whose weights, less their zero point, do not fit int8."""
    tensors, layers = [Tensor("x_0", (3, sizes[0]), "uint8", Quant((0.02,), (120,)))], []
    for number, (depth, units) in enumerate(itertools.pairwise(sizes), 1):
        weights = rng.choice(np.array([0, 1, 254, 255], np.uint8), (units, depth))
        tensors.append(constant(f"w_{number}", weights, Quant((0.01,), (100,))))
        tensors.append(Tensor(f"x_{number}", (3, units), "uint8", Quant((0.3,), (128,))))
        operands = (f"x_{number - 1}", f"w_{number}"), (f"x_{number}",)
        layers.append(Op(f"dense_{number}", "fully_connected", *operands, {"activation": "none", "keep_num_dims": False}))
    return verify(Graph("dense", {t.name: t for t in tensors}, tuple(layers), ("x_0",), (tensors[-1].name,)))


def test_uint8_layers_over_their_dying_inputs_give_the_reference_bytes(tmp_path: Path) -> None:
    """Weights with a zero point take kernels of their own, which write each output before they read for the next."""
    graph, _ = run_passes(dense_uint8(np.random.default_rng(0), (16, 12, 8, 12)), float_io=True)
    made = plan(graph)
    assert made.variants.count("tw_fully_connected_s8_offset") == 3
    steps = [(op.inputs[0], op.outputs[0]) for op in graph.ops if op.kind == "fully_connected"]
    apart = sum(graph.tensors[name].bytes for name in steps[0])
    assert made.arena["sram"] < apart, "outputs lie over the inputs that die with them"
    rounds = compare.samples(graph, 8, 1)
    for values, sample in zip(outputs(made, tmp_path / "dense", rounds), rounds, strict=True):
        reference = ops.run(graph, dict(zip(graph.inputs, sample, strict=True)))
        assert values == [reference[name].tobytes() for name in graph.outputs]


def test_first_pixels_by_brute_force() -> None:
    """Against the definition: the first pixel that a window holds."""
    rng = np.random.default_rng(3)
    for _ in range(300):
        size = tuple(int(n) for n in rng.integers(1, 9, 2))
        kernel = tuple(int(rng.integers(1, 6)) for _ in size)
        stride, dilation = (tuple(int(n) for n in rng.integers(1, 4, 2)) for _ in range(2))
        extent = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
        pad = tuple(int(rng.integers(0, e)) for e in extent)
        out = tuple((size[a] + pad[a] + int(rng.integers(0, extent[a])) - extent[a]) // stride[a] + 1 for a in (0, 1))
        if min(out) < 1:
            continue
        first = []
        for y, x in itertools.product(range(out[0]), range(out[1])):
            rows, cols = (
                [at for i in range(kernel[a]) if 0 <= (at := o * stride[a] - pad[a] + i * dilation[a]) < size[a]]
                for a, o in ((0, y), (1, x))
            )
            first.append(min((r * size[1] + c for r in rows for c in cols), default=NEVER))
        found = first_pixels(size, out, Window(extent, stride, pad), dilation)
        inside = np.array(first) < NEVER
        assert (found == first)[inside].all(), (size, extent, stride, pad, out)


def test_a_batch_of_several_maps_has_no_lag() -> None:
    case = next(case for case in cases("max_pool_2d"))
    x = case.graph.tensors[case.graph.inputs[0]]
    several = {**case.graph.tensors, x.name: replace(x, shape=(2, *x.shape[1:]))}
    graph = replace(case.graph, tensors=several)
    assert variant_for(case.graph, case.graph.ops[0]).lag(graph, graph.ops[0]) == {}
