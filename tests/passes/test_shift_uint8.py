"""uint8 networks become int8 ones that give LiteRT's uint8 bytes, for cases of every kind and real models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases.draw import activation, constant, single_op
from cases.ops import GENERATORS, Case, cases
from cases.rows import union
from codegen.emitted import emitted

from tinyweave import api, ops
from tinyweave.exporters.tflite import to_tflite
from tinyweave.importers.tflite import from_tflite
from tinyweave.ir import CompileError, Graph, Op, Quant, Tensor, verify
from tinyweave.kernels.table import variant_for
from tinyweave.ops import SPECS
from tinyweave.passes import run_passes
from tinyweave.passes.shift_uint8 import shift_uint8
from tinyweave.planning import Request, plan
from tinyweave.simulate import compare, emulated, host, litert

# LiteRT has no lookup, which stands for functions of one byte
KINDS = sorted({kind for kind, spec in SPECS.items() if spec.uint8 or spec.moves} & set(GENERATORS) - {"shape", "lookup"})
ONE_TENSOR_OF_BYTES = ("arg_max", "arg_min")  # their outputs are indices
AT_MOST = 40


def as_uint8(array: np.ndarray) -> np.ndarray:
    return array.view(np.uint8) ^ np.uint8(128) if array.dtype == np.int8 else array


def uint8_case(case: Case, rng: np.random.Generator) -> Case:
    """Return the case with uint8 instead of int8 tensors; weights get one scale and usually a zero point other than 128."""
    tensors = {}
    for tensor in case.graph.tensors.values():
        quant = tensor.quant
        if tensor.name == "weights" and quant is not None:
            quant = Quant((max(quant.scale),), (int(rng.choice([0, rng.integers(-128, 128)])),))
        if tensor.name == "bias":
            scale = case.graph.tensors["input"].scale * max(case.graph.tensors["weights"].quant.scale)
            tensor = replace(tensor, quant=Quant((float(np.float32(scale)),), (0,)))
        elif tensor.dtype == "int8" and quant is not None:
            shifted = Quant(quant.scale, tuple(zero + 128 for zero in quant.zero_point), quant.axis)
            data = None if tensor.data is None else as_uint8(tensor.data)
            tensor = replace(tensor, dtype="uint8", data=data, quant=shifted)
        tensors[tensor.name] = tensor
    return Case(case.id, verify(replace(case.graph, tensors=tensors)), [[as_uint8(x) for x in s] for s in case.inputs])


def uint8_cases(kind: str) -> Iterator[Case]:
    rng, taken = np.random.default_rng(len(kind)), 0
    for case in cases(kind):
        # the anchors of uint8 boxes are uint8
        has_floats = any(t.dtype == "float32" for t in case.graph.tensors.values() if t.data is not None)
        if taken < AT_MOST and not has_floats and any(t.dtype == "int8" for t in case.graph.tensors.values()):
            try:
                variant_for(case.graph, case.graph.ops[0])
            except CompileError:
                if not ops.SPECS[kind].view:
                    continue
            taken += 1
            yield uint8_case(case, rng)


@pytest.mark.litert
@pytest.mark.parametrize("kind", KINDS)
def test_uint8_ops_give_the_bytes_of_litert(kind: str, tmp_path: Path) -> None:
    chosen = list(uint8_cases(kind))
    assert len(chosen) >= 8
    graph, _ = run_passes(union(f"{kind}_u8", chosen), io="model")
    computes = [op for op in graph.ops if not SPECS[op.kind].moves and op.kind not in ("shape", "quantize")]
    assert not any(t.dtype == "uint8" for op in computes for t in graph.outputs_of(op))
    made = plan(graph, Request("layer"))
    folder, arena = emitted(made, tmp_path / "c"), made.arena
    program = host.build(folder, graph.name, sanitize=True, optimize="-O0")
    firmware = emulated.build(folder, graph.name, "cortex-m4")
    expected: list[list[np.ndarray]] = [[], []]
    for case in chosen:
        for sample, run in enumerate(litert.run(to_tflite(case.graph), case.inputs)):
            expected[sample] += ops.defined(case.graph, run.outputs)
    for sample in range(2):
        x = [array for case in chosen for array in case.inputs[sample]]
        computed = ops.run(graph, dict(zip(graph.inputs, x, strict=True)))
        on_host = compare.unpack_all(graph, host.invoke(program, arena, compare.pack(x), compare.output_bytes(graph)))[-1]
        on_core = compare.unpack_all(graph, emulated.invoke(firmware, arena, compare.pack(x), compare.output_bytes(graph)))[-1]
        owners = [case for case in chosen for _ in case.graph.outputs]
        for case, want, name, a, b in zip(owners, expected[sample], graph.outputs, on_host, on_core, strict=True):
            for where, have in (("numpy", computed[name]), ("host", a), ("core", b)):
                assert compare.difference(want, have) is None, f"{case.id}, sample {sample}, {where}"


@pytest.mark.litert
@pytest.mark.parametrize("kind", ["conv_2d", "fully_connected"])
def test_scales_are_multiplied_with_the_precision_of_litert(kind: str) -> None:
    """conv_2d multiplies input and weight scale in float32, fully_connected in float64. The biases reveal the difference."""
    rng, told = np.random.default_rng(0), 0
    for _ in range(8):
        x_scale, w_scale = (float(np.float32(v)) for v in np.exp(rng.uniform(-7, -5, 2)))
        out_scale = float(np.float32(x_scale * w_scale * np.exp(rng.uniform(8.5, 9.3))))
        x = activation(
            "input", (1, 1, 1, 1)[-2 if kind == "fully_connected" else -4 :], rng, dtype="uint8", quant=Quant((x_scale,), (7,))
        )
        out = activation("output", (), rng, dtype="uint8", quant=Quant((out_scale,), (128,)))
        single, double = float(np.float32(x_scale) * np.float32(w_scale)) / out_scale, x_scale * w_scale / out_scale
        sums = np.arange(int(-120 / double), int(120 / double))
        differ = np.flatnonzero(np.floor(sums * single + 0.5) != np.floor(sums * double + 0.5))[:64]
        if not len(differ):
            continue
        told += len(differ)
        bias = constant("bias", sums[differ].astype(np.int32), Quant((float(np.float32(x_scale * w_scale)),), (0,)))
        shape = (len(differ), *x.shape[1:])
        weights = constant("weights", np.full(shape, 9, np.uint8), Quant((w_scale,), (9,)))
        attrs = (
            {"stride": (1, 1), "dilation": (1, 1), "padding": ((0, 0), (0, 0))}
            if kind == "conv_2d"
            else {"keep_num_dims": False}
        )
        out = replace(out, shape=(*x.shape[:-1], len(differ)))
        tensors = {t.name: t for t in (x, weights, bias, out)}
        op = Op("op", kind, ("input", "weights", "bias"), ("output",), {**attrs, "activation": "none"})
        graph = verify(Graph("g", tensors, (op,), ("input",), ("output",)))
        array = np.zeros(x.shape, np.uint8)
        (run,) = litert.run(to_tflite(graph), [[array]])
        shifted, _ = run_passes(graph, io="model")
        assert np.array_equal(ops.run(shifted, {"input": array})["output"], run.outputs[0])
    assert told > 10


def small() -> Graph:
    """Return a uint8 add of the input and a constant, then a relu."""
    quant = Quant((0.5,), (100,))
    x, y, z = (Tensor(name, (1, 4), "uint8", quant) for name in "xyz")
    c = constant("c", np.array([[0, 100, 200, 255]], np.uint8), quant)
    ops_ = (Op("add_0", "add", ("x", "c"), ("y",), {"activation": "none"}), Op("relu_1", "relu", ("y",), ("z",)))
    return verify(Graph("g", {t.name: t for t in (x, y, z, c)}, ops_, ("x",), ("z",)))


def test_inner_tensors_become_int8_and_inputs_and_outputs_stay_uint8() -> None:
    graph, sources = shift_uint8(small())
    assert [(op.name, op.kind, op.inputs, op.outputs) for op in graph.ops] == [
        ("quantize_input_0", "quantize", ("x",), ("x_int8",)),
        ("add_0", "add", ("x_int8", "c"), ("y",)),
        ("relu_1", "relu", ("y",), ("z_int8",)),
        ("quantize_output_0", "quantize", ("z_int8",), ("z",)),
    ]
    assert sources == {"x_int8": ("x", None), "z_int8": ("z", None)}
    assert {name: (t.dtype, t.zero_point) for name, t in graph.tensors.items()} == {
        "x": ("uint8", 100), "x_int8": ("int8", -28), "c": ("int8", -28), "y": ("int8", -28), "z_int8": ("int8", -28),
        "z": ("uint8", 100),
    }  # fmt: skip
    assert graph.tensors["c"].data.tolist() == [[-128, -28, 72, 127]]
    verify(graph)


def test_int8_networks_with_uint8_inputs_are_unchanged() -> None:
    x, y = activation("x", (1, 4), np.random.default_rng(0), dtype="uint8"), activation("y", (), np.random.default_rng(0))
    graph = single_op("quantize", [x], y, {})
    assert shift_uint8(graph) == (graph, {})


def test_weights_become_symmetric_if_they_fit_int8() -> None:
    rng = np.random.default_rng(0)
    x, out = activation("input", (1, 3), rng, dtype="uint8"), activation("output", (1, 2), rng, dtype="uint8")
    for values, zero, expected in (([60, 200], 120, 0), ([0, 250], 120, -8)):
        weights = constant("weights", np.array([values[:1] * 3, values[1:] * 3], np.uint8), Quant((0.01,), (zero,)))
        op = Op("op", "fully_connected", ("input", "weights"), ("output",), {"activation": "none", "keep_num_dims": False})
        graph = Graph("g", {t.name: t for t in (x, weights, out)}, (op,), ("input",), ("output",))
        shifted, _ = shift_uint8(graph)
        found = shifted.input(shifted.ops[1], 1)
        assert found.zero_point == expected
        assert (found.data.astype(int) - expected == weights.data.astype(int) - zero).all()


def test_uint8_ops_that_round_differently_are_refused() -> None:
    graph = small()
    odd = replace(graph, ops=(graph.ops[0], replace(graph.ops[1], kind="transpose_conv")))
    with pytest.raises(CompileError, match=r"transpose_conv\): is not supported for uint8, .*; quantise the model to int8"):
        shift_uint8(odd)


@pytest.mark.parametrize("kind", KINDS)
def test_ops_that_mix_int8_and_uint8_are_refused(kind: str) -> None:
    graph, refused = next(uint8_cases(kind)).graph, 0
    bytes_ = [tensor for tensor in graph.tensors.values() if tensor.dtype == "uint8" and tensor.quant is not None]
    for tensor in bytes_ if len(bytes_) > 1 else []:
        data = None if tensor.data is None else tensor.data.view(np.int8) ^ np.int8(-128)
        zeros = tuple(zero - 128 for zero in tensor.quant.zero_point)
        other = replace(tensor, dtype="int8", data=data, quant=replace(tensor.quant, zero_point=zeros))
        text = "type" if SPECS[kind].moves else r"mixes int8 \('.*'\) and uint8 \('.*'\), which LiteRT does not compute"
        with pytest.raises(CompileError, match=text):
            ops.check(run_passes(replace(graph, tensors=graph.tensors | {tensor.name: other}), io="model")[0])
        refused += 1
    assert refused >= 2 or kind in ONE_TENSOR_OF_BYTES


def test_a_former_uint8_op_cannot_be_exported_as_int8() -> None:
    graph, _ = run_passes(next(uint8_cases("average_pool_2d")).graph, io="model")
    with pytest.raises(CompileError, match="was uint8 and cannot be written as int8"):
        to_tflite(graph)


def test_weights_of_int8_files_must_be_symmetric() -> None:
    x, out = activation("input", (1, 3), np.random.default_rng(0)), activation("output", (), np.random.default_rng(0))
    weights = constant("weights", np.ones((2, 3), np.int8), Quant((0.01,), (5,)))
    with pytest.raises(CompileError, match=r"must be int8.* with one scale or one per channel, zero point 0 unless uint8"):
        single_op("fully_connected", [x, weights], out, {"activation": "none", "keep_num_dims": False})


@pytest.mark.shared
@pytest.mark.litert
@pytest.mark.parametrize("io", ["model", "int8"])
def test_a_real_uint8_model_equals_litert(io: str, shared: Path) -> None:
    model = api.load(shared / "models" / "google-coral__test_data__mobilenet_v1_0.25_128_quant.tflite", io=io)
    edge = model.graph.tensors[model.graph.inputs[0]].dtype, model.graph.tensors[model.graph.outputs[0]].dtype
    assert edge == (("uint8", "uint8") if io == "model" else ("int8", "int8"))
    result = api.verify_plan(model, api.plan(model), api.ProofOptions(count=2), core=None)
    assert result.ok, result.first_difference
    assert result.reference.startswith("LiteRT's reference kernels")


def test_uint8_survives_the_round_trip_through_tflite() -> None:
    case = next(uint8_cases("conv_2d"))
    again = from_tflite(to_tflite(case.graph), case.graph.name)
    assert again.tensors["input"].dtype == "uint8"
