"""Outputs are right if they overlap an input at the declared distance, on the host and on cores with their own kernels.

Each row of the table runs some cases per input that has a distance; only that input and the output overlap.
test_access.py checks that the distances are no larger than necessary.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from cases.draw import constant
from cases.ops import Case, cases
from cases.rows import cases_of, union
from cases.sweeps import rest_in_sweeps
from codegen.emitted import emitted

from tinyweave import ops
from tinyweave.ir import Graph, Op, Quant, Tensor, array_type, itemsize, limits, verify
from tinyweave.kernels.access import overlap_distances
from tinyweave.kernels.access_order import NOTHING, first_inputs, first_pixels
from tinyweave.kernels.table import VARIANTS, Variant, variant_for
from tinyweave.passes import run_passes
from tinyweave.planning import Buffer, Place, Plan, Stage, plan, scratch_name
from tinyweave.simulate import compare, emulated, host

GROUPS = 8  # groups of rows that are built together
TRIALS, SAMPLES = 10, 4  # per row
GAP, ALIGN = 64, 8
CORES = ("cortex-m4", "cortex-m55", "cortex-m7", "rv32imc")
APART = {  # rows whose outputs may overlap no input
    "tw_gather_nd": "it reads any slice at any time",
    "tw_svdf_s8": "each unit reads the whole input",
    "tw_svdf_s8_dsp": "each unit reads the whole input",
    "tw_svdf_s8_mve": "each unit reads the whole input",
    "tw_batch_matmul_s16": "no order is declared",
    "tw_resize_bilinear_s16": "the same",
    "tw_quantize_f32_s16": "compilers may move a read of a float behind a write of an int16",
    "tw_dequantize_s16_f32": "the same the other way round",
    "tw_select_v2": "each of its operands may be broadcast, and no order is declared",
    "tw_detection_postprocess_s8": "it reads any box at any time, and has several outputs",
    "tw_topk_v2_s8": "it reads a row once for each element that it selects, and has two outputs",
    **{f"tw_stateless_lstm_s8{core}": "it has two outputs" for core in ("", "_dsp", "_mve")},
    "memcpy": "state and what is read from it keep their places",
}
# portable kernels that copy by words or vectors on some cores, or by the core's memmove
COPYING = ("tw_concatenation_s8", "tw_pad_s8", "tw_strided_copy", "tw_table_copy", "tw_resize_nearest_neighbor_s8", "tw_move")


class Trial(NamedTuple):
    """A case, the kernel that runs it, and the input that the output overlaps."""

    case: Case
    row: Variant
    index: int

    @property
    def distance(self) -> int:
        return overlap_distances(self.case.graph, self.case.graph.ops[0], self.row.name)[self.index]


def aligned(size: int, align: int) -> int:
    return -(-size // align) * align


def trials(row: Variant) -> list[Trial]:
    """Return some trials of a row, preferably with a distance above 0."""
    drawn = []
    for case in cases_of(row):
        graph, op = case.graph, case.graph.ops[0]
        several = sum(graph.tensors[name].role != "state" for name in op.outputs)
        if several != 1 or not graph.output(op).bytes:
            continue
        for index in overlap_distances(graph, op, row.name):
            tensor = graph.input(op, index)
            if tensor.data is None and tensor.bytes and op.inputs.count(tensor.name) == 1:
                drawn.append(Trial(case, row, index))
    apart = [trial for trial in drawn if trial.distance] or drawn
    return apart[:: max(len(apart) // TRIALS, 1)]


def overlapped(chosen: Sequence[Trial]) -> Plan:
    """Return an unchecked plan of all trials side by side, each output at its distance below its input."""
    graph = union("overlapped", [trial.case for trial in chosen])
    sizes, offsets, begin = {}, {}, 0
    for trial, op in zip(chosen, graph.ops, strict=True):
        x, out = graph.input(op, trial.index), graph.output(op)
        element = itemsize(out.dtype)
        offsets[x.name] = begin + aligned(trial.distance + element, ALIGN)
        offsets[out.name] = offsets[x.name] - aligned(trial.distance, element)
        begin = aligned(max(offsets[x.name] + x.bytes, offsets[out.name] + out.bytes) + GAP, ALIGN)
        rest = [name for name in (*op.inputs, *op.outputs) if name is not None and graph.tensors[name].data is None]
        sizes |= {name: graph.tensors[name].bytes for name in rest}
        sizes |= {scratch_name(op.name): scratch} if (scratch := trial.row.scratch(graph, op)) else {}
        for name in (name for name in sizes if name not in offsets):
            offsets[name] = begin
            begin = aligned(begin + sizes[name] + GAP, ALIGN)
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


def outputs(plan: Plan, folder: Path, rounds: Sequence[Sequence[np.ndarray]], core: str = "") -> list[list[bytes]]:
    """Run the rounds in one memory, on the host or a core; return the bytes of every output per round."""
    where, name = emitted(plan, folder), plan.graph.name
    *earlier, last = (compare.pack(arrays) for arrays in rounds)
    sizes = compare.output_bytes(plan.graph)
    if core:
        run = emulated.invoke(emulated.build(where, name, core), plan.arena, last, sizes, earlier=earlier)
    else:
        run = host.invoke(host.build(where, name), plan.arena, last, sizes, earlier=earlier)
    return [[array.tobytes() for array in arrays] for arrays in compare.unpack_all(plan.graph, run)]


def drawn(case: Case, rng: np.random.Generator) -> list[np.ndarray]:
    """Return random inputs: integers of the full range, and floats of the case."""
    arrays = []
    for number, name in enumerate(case.graph.inputs):
        tensor = case.graph.tensors[name]
        if tensor.dtype in ("float32", "bool"):
            arrays.append(rng.permutation(case.inputs[0][number].ravel()).reshape(tensor.shape))
        else:
            arrays.append(rng.integers(*limits(tensor.dtype), tensor.shape, array_type(tensor.dtype), endpoint=True))
    return arrays


def failing_trials(chosen: Sequence[Trial], folder: Path, core: str = "") -> list[str]:
    """Return the trials whose outputs differ from the reference's."""
    rng = np.random.default_rng(0)
    rounds = [[drawn(case, rng) for case, _, _ in chosen] for _ in range(SAMPLES)]
    flat = [[array for arrays in each for array in arrays] for each in rounds]
    runs = outputs(overlapped(chosen), folder / "overlapped", flat, core)
    found, cursor = [], 0
    for number, trial in enumerate(chosen):
        graph = trial.case.graph
        state, end = ops.initial_state(graph), cursor + len(graph.outputs)
        for sample, arrays in enumerate(rounds):
            values = ops.run(graph, dict(zip(graph.inputs, arrays[number], strict=True)), state=state)
            if runs[sample][cursor:end] != [values[name].tobytes() for name in graph.outputs]:
                found.append(
                    f"{trial.row.name}, {trial.case.id}, input {trial.index}, distance {trial.distance}, sample {sample}"
                )
        cursor = end
    return found


@pytest.mark.parametrize("group", range(GROUPS))
def test_outputs_at_the_declared_distance_equal_the_reference(group: int, tmp_path: Path) -> None:
    chosen = []
    for row in VARIANTS[group::GROUPS]:
        of_row = trials(row)
        assert bool(of_row) != (row.name in APART), f"{row.name}: {len(of_row)} trials"
        chosen += of_row
    assert not failing_trials(chosen, tmp_path)


@pytest.mark.emulator
@pytest.mark.parametrize("core", rest_in_sweeps(CORES, 2))
def test_outputs_at_the_declared_distance_equal_the_reference_on_the_core(core: str, tmp_path: Path) -> None:
    """The core's instructions access memory in another order than the plain C that replaces them on the host."""
    if reason := emulated.missing(core):
        pytest.skip(reason[0])
    rows = [row for row in VARIANTS if core in row.cores or row.name in COPYING]
    chosen = [trial for row in rows for trial in trials(row)]
    assert {trial.row.name for trial in chosen} == {row.name for row in rows} - {*APART}
    assert not failing_trials(chosen, tmp_path, core)


def test_outputs_at_a_smaller_distance_differ_from_the_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One element less gives other bytes in at least half of the trials."""
    chosen = [trial for row in VARIANTS if row.name == "tw_conv_2d_s8" for trial in trials(row)]
    enough = Trial.distance.fget
    monkeypatch.setattr(Trial, "distance", property(lambda trial: enough(trial) - 1))
    found = failing_trials(chosen, tmp_path)
    assert len({text.partition(",")[2] for text in found}) >= len(chosen) // 2


def dense_uint8(rng: np.random.Generator, sizes: Sequence[int]) -> Graph:
    """Return a chain of uint8 dense layers whose weights minus their zero point do not fit int8."""
    tensors, layers = [Tensor("x_0", (3, sizes[0]), "uint8", Quant((0.02,), (120,)))], []
    for number, (depth, units) in enumerate(itertools.pairwise(sizes), 1):
        weights = rng.choice(np.array([0, 1, 254, 255], np.uint8), (units, depth))
        tensors.append(constant(f"w_{number}", weights, Quant((0.01,), (100,))))
        tensors.append(Tensor(f"x_{number}", (3, units), "uint8", Quant((0.3,), (128,))))
        operands = (f"x_{number - 1}", f"w_{number}"), (f"x_{number}",)
        layers.append(Op(f"dense_{number}", "fully_connected", *operands, {"activation": "none", "keep_num_dims": False}))
    return verify(Graph("dense", {t.name: t for t in tensors}, tuple(layers), ("x_0",), (tensors[-1].name,)))


def test_uint8_layers_that_overwrite_their_inputs_give_the_reference_bytes(tmp_path: Path) -> None:
    """Kernels for weights with a zero point write each output before they read the inputs of the next."""
    graph, _ = run_passes(dense_uint8(np.random.default_rng(0), (16, 12, 8, 12)), io="model")
    made = plan(graph)
    assert made.variants.count("tw_fully_connected_s8_offset") == 3
    steps = [(op.inputs[0], op.outputs[0]) for op in graph.ops if op.kind == "fully_connected"]
    apart = sum(graph.tensors[name].bytes for name in steps[0])
    assert made.arena["sram"] < apart, "outputs lie over the inputs that die with them"
    rounds = compare.samples(graph, 8, 1)
    for values, sample in zip(outputs(made, tmp_path / "dense", rounds), rounds, strict=True):
        reference = ops.run(graph, dict(zip(graph.inputs, sample, strict=True)))
        assert values == [reference[name].tobytes() for name in graph.outputs]


def test_first_pixels_of_windows_equal_those_of_brute_force() -> None:
    """Brute force takes the first pixel that a window contains."""
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
            first.append(min((r * size[1] + c for r in rows for c in cols), default=NOTHING))
        assert first_pixels(size, out, kernel, stride, dilation=dilation, pad=pad).ravel().tolist() == first


def test_first_inputs_of_a_transposed_convolution_equal_those_of_brute_force() -> None:
    """Outputs that no input reaches, in gaps and after the last input, have none."""
    for size, kernel, stride in itertools.product(range(1, 5), range(1, 5), range(1, 5)):
        for pad in range(kernel):
            out = size * stride + kernel
            reached = [{i * stride - pad + tap for tap in range(kernel)} for i in range(size)]
            first = [next((i for i, outputs in enumerate(reached) if at in outputs), NOTHING) for at in range(out)]
            assert first_inputs(size, out, kernel, stride, pad).tolist() == first, (size, kernel, stride, pad)


def test_a_batch_of_several_maps_has_no_overlap_distance() -> None:
    case = next(case for case in cases("max_pool_2d"))
    x = case.graph.tensors[case.graph.inputs[0]]
    several = {**case.graph.tensors, x.name: replace(x, shape=(2, *x.shape[1:]))}
    graph = replace(case.graph, tensors=several)
    assert overlap_distances(graph, graph.ops[0], variant_for(case.graph, case.graph.ops[0]).name) == {}
