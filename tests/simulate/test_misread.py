"""Ops whose operands LiteRT misreads are verified with numpy alone, which equals TFLite Micro's kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from cases.draw import constant, scale, single_op
from cases.ops import GENERATORS, NOT_IN_LITERT, cases

from tinyweave import api, ops
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError, Graph, Quant, Tensor
from tinyweave.ops.litert_differences import difference
from tinyweave.simulate import compare

STEPS = 6


def svdf(seed: int) -> Graph:
    """Return an svdf of random size with int8 time weights and memory."""
    rng = np.random.default_rng(seed)
    depth, units, rank, steps = (int(rng.choice(sizes)) for sizes in ([1, 5, 16], [1, 3, 8], [1, 2], [1, 4, 9]))
    x = Tensor("input", (1, depth), "int8", Quant((scale(rng),), (int(rng.integers(-128, 128)),)))
    weights = constant("weights", rng.integers(-127, 128, (units * rank, depth), np.int8), Quant((scale(rng),), (0,)))
    time = constant("time", rng.integers(-127, 128, (units * rank, steps), np.int8), Quant((scale(rng),), (0,)))
    memory = float(np.float32(x.scale * weights.scale * depth**0.5 * rng.uniform(10, 100)))
    state = Tensor("state", (1, units * rank * steps), "int8", Quant((memory,), (int(rng.integers(-20, 21)),)), role="state")
    out = Tensor("output", (), "int8", Quant((float(np.float32(memory * time.scale * rng.uniform(30, 300))),), (-7,)))
    sums = Quant((float(np.float32(memory * time.scale)),), (0,))
    bias = constant("bias", rng.integers(-4000, 4000, units).astype(np.int32), sums)  # TFLite Micro crashes without a bias
    return single_op("svdf", [x, weights, time, bias, state], out, {"rank": rank, "activation": "relu"})


def wide(graph: Graph) -> Graph:
    """Return a graph of one op with its constant int32 operands as int64."""
    narrow = [t for t in graph.inputs_of(graph.ops[0])[:4] if t is not None and t.data is not None and t.quant is None]
    tensors = {t.name: replace(t, dtype="int64", data=t.data.astype(np.int64)) for t in narrow if t.dtype == "int32"}
    return replace(graph, tensors=graph.tensors | tensors)


def moved(kind: str) -> Graph:
    """Return an op of a kind that moves elements, with int64 operands."""
    x, out = Tensor("input", (2, 4, 3), "int8", Quant((0.5,), (3,))), Tensor("output", (), "int8", Quant((0.5,), (3,)))
    values = {"transpose": [[2, 0, 1]], "space_to_batch_nd": [[2], [[2, 2]]], "batch_to_space_nd": [[2], [[1, 1]]]}[kind]
    return single_op(kind, [x, *(constant(f"operand_{i}", np.array(v)) for i, v in enumerate(values))], out, {})


MISREAD = {kind: moved(kind) for kind in ("transpose", "space_to_batch_nd", "batch_to_space_nd")}
MISREAD |= {"svdf": svdf(1), "sum": next(cases("sum")).graph}


def computed(graph: Graph, samples: list[list[np.ndarray]]) -> Iterator[list[np.ndarray]]:
    state = ops.initial_state(graph)
    for sample in samples:
        made = ops.run(graph, dict(zip(graph.inputs, sample, strict=True)), state=state)
        yield [made[name] for name in graph.outputs]


def litert_equals_numpy(graph: Graph, litert: ModuleType) -> bool | None:
    """Return whether LiteRT gives numpy's bytes; None if it rejects the model."""
    samples = compare.samples(graph, STEPS, 0)
    try:
        runs = litert.run(to_tflite(graph), samples)
    except litert.CannotRunError:
        return None
    pairs = zip(computed(graph, samples), runs, strict=True)
    return all(a.tobytes() == b.tobytes() for ours, run in pairs for a, b in zip(ours, run.outputs, strict=True))


@pytest.mark.litert
@pytest.mark.parametrize("kind", MISREAD)
def test_an_op_that_litert_misreads_is_verified_with_numpy_alone(kind: str, tmp_path: Path, litert: ModuleType) -> None:
    assert litert_equals_numpy(MISREAD[kind], litert) is False
    (tmp_path / "m.tflite").write_bytes(to_tflite(MISREAD[kind]))
    model = api.load(tmp_path / "m.tflite")
    result = api.verify_plan(model, api.plan(model), api.ProofOptions(count=STEPS), core=None)
    assert result.ok and result.first_difference is None and result.reference == "numpy reference"
    assert result.without_litert is not None and f"({kind}): LiteRT's kernel reads the int" in result.without_litert


@pytest.mark.litert
@pytest.mark.parametrize("kind", sorted(set(GENERATORS) - NOT_IN_LITERT))
def test_int64_operands_are_refused_or_equal_litert_or_known_as_misread(kind: str, litert: ModuleType) -> None:
    taken = list(islice((case.graph for case in cases(kind) if wide(case.graph) != case.graph), 2))
    for graph in map(wide, taken):
        try:
            ops.check(graph)
        except CompileError:
            continue
        known = difference(graph, graph.ops[0]) is not None
        assert known or litert_equals_numpy(graph, litert) is not False


def test_sums_of_int8_equal_tflite_micro() -> None:
    micro = pytest.importorskip("tflite_micro", reason="needs TFLite Micro: pip install tflite-micro")
    values = set()
    for case in islice(cases("sum"), 0, None, 2):
        interpreter = micro.runtime.Interpreter.from_bytes(to_tflite(case.graph))
        for (x,), (ours,) in zip(case.inputs, computed(case.graph, case.inputs), strict=True):
            interpreter.set_input(x, 0)
            interpreter.invoke()
            assert np.array_equal(interpreter.get_output(0), ours), case.id
            values.update(ours.ravel().tolist())
    assert len(values) > 100  # not all outputs saturate


def test_svdf_with_an_int8_memory_equals_tflite_micro() -> None:
    micro = pytest.importorskip("tflite_micro", reason="needs TFLite Micro: pip install tflite-micro")
    values = set()
    for seed in range(24):
        graph = svdf(seed)
        samples, (name,) = compare.samples(graph, STEPS, seed), graph.outputs
        interpreter = micro.runtime.Interpreter.from_bytes(to_tflite(graph))
        for (x,), (ours,) in zip(samples, computed(graph, samples), strict=True):
            interpreter.set_input(x, 0)
            interpreter.invoke()
            assert np.array_equal(interpreter.get_output(0), ours), (seed, name)
            values.update(ours.ravel().tolist())
    assert len(values) > 100  # not all outputs saturate
