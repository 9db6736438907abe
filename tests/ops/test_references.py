"""The numpy references give LiteRT's bytes on generated cases of every kind, and on every layer of real networks."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from cases.ops import GENERATORS, INT16, INT16_KINDS, NOT_IN_LITERT, all_cases, cases
from cases.sweeps import PARTS, part_of

from tinyweave import ops
from tinyweave.exporters.tflite import to_tflite
from tinyweave.importers.tflite import from_tflite
from tinyweave.ir import CompileError, Graph, Op, Quant, Tensor
from tinyweave.ops import elementwise
from tinyweave.ops.litert_differences import difference
from tinyweave.simulate import compare

# reasons why a file is not supported: other op kinds, uint8 networks, float ones with int8 weights, several subgraphs
# "must be constant": shapes and indices that are constant only after folding
UNSUPPORTED = (
    "must be constant",
    "not supported",
    "must be int8",
    "must convert float32",
    "only one is supported",
    "is not a positive number",
    "must be float32 if the input is",
)


ON_INT16 = [INT16 + kind for kind in INT16_KINDS if kind != "relu_n1_to_1"]  # which LiteRT lacks


def same_bytes(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def close(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether float32 results differ by no more than another order of summation can cause."""
    return a.shape == b.shape and a.dtype == b.dtype and np.allclose(a, b, rtol=1e-4, atol=1e-5 * max(1.0, np.abs(b).max()))


def test_every_kind_has_cases() -> None:
    assert set(GENERATORS) == set(ops.SPECS)
    for kind in GENERATORS:
        names = [case.id for case in cases(kind)]
        assert len(names) >= 6, kind
        assert len(set(names)) == len(names), kind


def test_generated_cases_are_deterministic() -> None:
    first, second = ([to_tflite(case.graph) for case in cases("conv_2d")] for _ in range(2))
    assert first == second


@pytest.mark.litert
@pytest.mark.parametrize("kind", [*sorted(set(GENERATORS) - NOT_IN_LITERT), *ON_INT16])
def test_reference_equals_litert(kind: str, litert: ModuleType) -> None:
    different, values = [], set()
    for case in all_cases(kind):
        runs = litert.run(to_tflite(case.graph), case.inputs)
        state = ops.initial_state(case.graph)
        for arrays, run in zip(case.inputs, runs, strict=True):
            computed = ops.run(case.graph, dict(zip(case.graph.inputs, arrays, strict=True)), state=state)
            for name, array in zip(case.graph.outputs, run.outputs, strict=True):
                if not same_bytes(computed[name], array):
                    different.append(case.id)
                values.update(array.ravel()[:200].tolist())
    assert not different, f"{len(different)} cases differ, first {different[0]}"
    is_bool = case.graph.output(case.graph.ops[0]).dtype == "bool"
    assert kind == "shape" or len(values) > (1 if is_bool else 50)  # not all outputs saturate


@pytest.mark.litert
def test_quotients_equal_litert_where_its_shifts_are_defined(litert: ModuleType) -> None:
    """LiteRT refuses to divide by 0, and shifts small quotients right by more than 31 bits, which C does not define."""
    compared, defined = set(), 0
    for case in cases("div"):
        graph, (op,) = case.graph, case.graph.ops
        a, b = graph.input(op), graph.input(op, 1)
        zero = b.zero_point
        if b.data is not None and (b.data == zero).any():
            continue
        never = np.int8(zero + 1 if zero < 127 else zero - 1)
        inputs = [[np.where((x == zero) & (n == b.name), never, x) for n, x in zip(graph.inputs, arrays, strict=True)]
                  for arrays in case.inputs]  # fmt: skip
        for arrays, run in zip(inputs, litert.run(to_tflite(graph), inputs), strict=True):
            fed = dict(zip(graph.inputs, arrays, strict=True))
            (ours,) = ops.run(graph, fed).values()
            x, y = (np.asarray(fed.get(t.name, t.data), np.int64) - t.zero_point for t in (a, b))
            signed = np.where(y < 0, -x, x)
            bits = [np.frexp(n.astype(float))[1] for n in (np.where(signed < 0, ~signed, signed), np.abs(y))]
            right = 31 - bits[0] + bits[1] - 1 - elementwise.mul_rescale(graph, op).shift
            agree = (ours == run.outputs[0]) | (right > 31)
            assert agree.all(), case.id
            compared.update(ours[np.broadcast_to(right <= 31, ours.shape)].tolist())
            defined += difference(graph, op) is None
    assert len(compared) > 200 and defined > 20


@pytest.mark.litert
def test_elu_equals_litert_s_optimised_kernel() -> None:
    """LiteRT has no reference kernel for it, only one that runs without delegates."""
    interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="needs LiteRT: pip install ai-edge-litert")
    plain = interpreter.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    for case in cases("elu"):
        run = interpreter.Interpreter(model_content=to_tflite(case.graph), experimental_op_resolver_type=plain)
        run.allocate_tensors()
        (source,), (made,) = run.get_input_details(), run.get_output_details()
        for (array,) in case.inputs:
            run.set_tensor(source["index"], array)
            run.invoke()
            (ours,) = ops.run(case.graph, {case.graph.inputs[0]: array}).values()
            assert same_bytes(ours, run.get_tensor(made["index"])), case.id


@pytest.mark.sweep
@pytest.mark.shared
@pytest.mark.litert
@pytest.mark.parametrize("part", range(PARTS))
def test_real_networks_equal_litert_layer_by_layer(part: int, shared: Path, litert: ModuleType) -> None:
    compared, different = 0, []
    for path in part_of([path for folder in ("models", "model_ops") for path in (shared / folder).glob("*.tflite")], part):
        if "kws_ref_model_float32" in path.name:  # its weights alone are int8: tests/exporters/test_float32.py compares it
            continue
        data = path.read_bytes()
        try:
            graph = ops.check(from_tflite(data, "network"))
        except CompileError as error:
            assert any(reason in str(error) for reason in UNSUPPORTED), f"{path.name}: {error}"
            continue
        samples = compare.samples(graph, 4, 0)[3:] if not graph.init else compare.samples(graph, 6, 0)[3:]
        try:
            runs = litert.run(data, samples, keep=True)
        except CompileError as error:
            # files for TFLite Micro by other tools: a quantised axis beyond the rank of a bias; an svdf with an int8 memory
            micro = any(op.kind == "svdf" and graph.input(op, 4).dtype == "int8" for op in graph.ops)
            assert "quantized_dimension" in str(error) or micro, f"{path.name}: {error}"
            continue
        compared += 1
        alike = close if any(ops.spec_for(graph, op) is not ops.SPECS[op.kind] for op in graph.ops) else same_bytes
        state = ops.initial_state(graph)
        for arrays, run in zip(samples, runs, strict=True):
            computed = ops.run(graph, dict(zip(graph.inputs, arrays, strict=True)), keep=True, state=state)
            # LiteRT does not return the tensors of rewritten ops; in the file, a state is not an output of an op
            different += [
                f"{path.name}: {name}" for name, array in run.layers.items() if not alike(computed.get(name, array), array)
            ]
    assert not different, different
    assert compared > 5


@pytest.mark.litert
@pytest.mark.parametrize("scale", [0.015625, 0.0046875])
def test_differences_of_all_values_equal_litert(scale: float, litert: ModuleType) -> None:
    """Products are halves, which a negative multiplier would round the other way, since the first scale is 2^-5."""
    values = np.arange(-128, 128, dtype=np.int8)
    a, b = np.repeat(values, 256)[None], np.tile(values, 256)[None]
    scales = {"a": (0.03125, -17), "b": (float(np.float32(scale)), 13), "out": (0.125, -9)}
    tensors = {name: Tensor(name, a.shape, "int8", Quant((each,), (zero,))) for name, (each, zero) in scales.items()}
    op = Op("sub_0", "sub", ("a", "b"), ("out",), {"activation": "none"})
    graph = Graph("differences", tensors, (op,), ("a", "b"), ("out",))
    (expected,) = litert.run(to_tflite(graph), [[a, b]])[0].outputs
    assert np.array_equal(ops.run(graph, {"a": a, "b": b})["out"], expected)
