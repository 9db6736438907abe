"""Each row of DIFFERENCES is true: what LiteRT computes, what the scales mean, and what tinyweave does about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import flatbuffers
import numpy as np
import pytest
from cases.as_float import float_case, real
from cases.draw import constant, scale, single_op
from cases.ops import GENERATORS, NOT_IN_LITERT, Case, cases
from fuzz.lowered import graph_of

from tinyweave import api, ops
from tinyweave.exporters.tflite import to_tflite
from tinyweave.importers.tflite import from_tflite
from tinyweave.ir import CompileError, Graph, Quant, Tensor, limits
from tinyweave.ops.constraints import has_narrow_bias
from tinyweave.ops.extrema import COMPARISONS
from tinyweave.ops.litert_differences import DIFFERENCES, Difference, difference
from tinyweave.passes import run_passes
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


def integers(name: str, dtype: str, scale: float = 0.5, shape: tuple[int, ...] = (1, 4, 4, 3), zero: int = 0) -> Tensor:
    return Tensor(name, shape, dtype, Quant((scale,), (zero,)))


def pair(kind: str, dtype: str, scales: tuple[float, float, float], **attrs: Any) -> Graph:
    """Return an op on two operands, with the scales of the operands and the output."""
    a, b, out = (integers(name, dtype, scale) for name, scale in zip(("a", "b", "out"), scales, strict=True))
    out = Tensor("out", a.shape, "bool") if kind in COMPARISONS else out
    out = replace(out, shape=(1, 4, 4, 6)) if kind == "concatenation" else out
    return graph_of(kind, [a, b], out, attrs)


def small_quotients() -> Graph:
    divisor = constant("b", np.full((1, 4, 4, 3), 127, np.int8), Quant((1.0,), (0,)))
    return graph_of("div", [integers("a", "int8"), divisor], integers("out", "int8"), {"activation": "none"})


def narrow_bias(kind: str) -> Graph:
    return next(case.graph for case in cases(kind) if has_narrow_bias(case.graph, case.graph.ops[0]))


def detection(whole: bool) -> Graph:
    """Return a detection_postprocess on uint8 boxes: whole with float32 anchors, else with 3 outputs and uint8 anchors."""
    drawn = (case.graph for case in cases("detection_postprocess"))
    graph = next(
        g
        for g in drawn
        if (g.tensors["anchors"].dtype == "float32") == whole and (whole or not g.ops[0].attrs["use_regular_nms"])
    )
    shifted = {
        name: replace(
            t,
            dtype="uint8",
            quant=Quant(t.quant.scale, (t.quant.zero_point[0] + 128,)),
            data=None if t.data is None else t.data.view(np.uint8) ^ np.uint8(128),
        )
        for name, t in graph.tensors.items()
        if t.dtype == "int8" and t.quant is not None
    }
    return replace(graph, tensors=graph.tensors | shifted, outputs=graph.outputs if whole else graph.outputs[:3])


def mixed(kind: str) -> Graph:
    """Return an int8 op with a uint8 output, an int8 prelu with uint8 slopes, or a uint8 convolution with int8 weights."""
    graph = next(case.graph for case in cases(kind) if case.graph.output(case.graph.ops[0]).dtype == "int8")
    op = graph.ops[0]
    names = {"prelu": op.inputs[1:], "conv_2d": (*graph.inputs, *graph.outputs)}.get(kind, graph.outputs)
    changed = {
        t.name: replace(
            t,
            dtype="uint8",
            quant=Quant(t.quant.scale, (t.zero_point % 128,)),
            data=None if t.data is None else t.data.view(np.uint8),
        )
        for t in graph.tensors.values()
        if t.name in names
    }
    return replace(graph, tensors=graph.tensors | changed)


def of_stored_integers(kind: str) -> Graph:
    """Return an op of a kind that moves elements, with a quantised int8 constant and a float32 output."""
    table = constant("table", np.array([[5, -7], [90, 3]], np.int8), Quant((0.5,), (3,)))
    return graph_of(kind, [table, Tensor("indices", (2, 1), "int32")], Tensor("out", (2, 2), "float32"), {})


def with_options(graph: Graph, **options: Any) -> bytes:
    """Return the file of a graph of one op with other fields of its options."""
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated", reason="needs LiteRT: pip install '.[verify]'")
    model = schema.ModelT.InitFromPackedBuf(to_tflite(graph), 0)
    for name, value in options.items():
        setattr(model.subgraphs[0].operators[0].builtinOptions, name, value)
    builder = flatbuffers.Builder(1 << 12)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def plain(kind: str, scale: float = 0.03125) -> Graph:
    """Return an int8 op without activation, of a kind that can have one."""
    if kind == "add":
        return pair("add", "int8", (scale, scale, scale), activation="none")
    return next(c.graph for c in cases(kind) if c.graph.ops[0].attrs["activation"] == "none" and c.graph.inputs == ("input",))


PLAIN = {"activation": "none"}
# form of a row -> a function from kind to a graph, and options of its file that a Graph cannot have
EXAMPLES: dict[str, tuple[Callable[[str], Graph], dict[str, Any]]] = {
    "int64 operand": (moved, {}),
    "int16 inputs of different scales": (
        lambda kind: pair(kind, "int16", (0.5, 0.25, 1.0), **(PLAIN | {"axis": 3} if kind == "concatenation" else {})),
        {},
    ),
    "int8 time weights and variable": (lambda kind: svdf(1), {}),
    "int8": (lambda kind: next(cases("sum")).graph, {}),
    "small quotients": (lambda kind: small_quotients(), {}),
    "uint8 boxes, other anchors": (lambda kind: detection(True), {}),
    "outputs inside the network": (lambda kind: detection(False), {}),
    "different scales": (lambda kind: pair(kind, "int8", (0.5, 0.25, 1.0)), {}),
    "int8 and uint8 in one op": (mixed, {}),
    "quantised constants, float32 output": (of_stored_integers, {}),
    "int16 slopes": (lambda kind: pair(kind, "int16", (2.0**-9, 2.0**-12, 2.0**-9)), {}),
    "int16, scales that are powers of two, pot_scale_int16": (
        lambda kind: pair(kind, "int16", (2.0**-9, 2.0**-11, 2.0**-9), **PLAIN),
        {"potScaleInt16": True},
    ),
    "int16, an int32 bias that the options do not name": (narrow_bias, {"quantizedBiasType": 0}),
    "integers, fused tanh": (plain, {"fusedActivationFunction": 4}),
}


ROWS = {f"{kind}, {row.form}": (kind, row) for row in DIFFERENCES for kind in row.kinds}


def in_reals(graph: Graph, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Return what a network of integers computes on the real numbers that its inputs stand for."""
    case = float_case(Case("", graph, [arrays]))
    return list(ops.run(case.graph, dict(zip(case.graph.inputs, case.inputs[0], strict=True))).values())


def is_meant(graph: Graph, wanted: list[np.ndarray], outputs: list[np.ndarray]) -> bool:
    """Return whether outputs are real numbers, rounded or clamped to the outputs' types, with an error of at most one step."""
    for name, reals, array in zip(graph.outputs, wanted, outputs, strict=True):
        tensor = graph.tensors[name]
        if tensor.quant is None:
            return bool((reals == array).all())
        low, high = (tensor.scale * (limit - tensor.zero_point) for limit in limits(tensor.dtype))
        if np.abs(np.clip(reals, low, high) - real(tensor, array)).max() > 1.01 * tensor.scale:
            return False
    return True


@pytest.mark.litert
@pytest.mark.parametrize(("kind", "row"), ROWS.values(), ids=ROWS)
def test_a_row_says_what_litert_and_tinyweave_do(kind: str, row: Difference, litert: ModuleType, tmp_path: Path) -> None:
    make, options = EXAMPLES[row.form]
    graph = make(kind)
    file = with_options(graph, **options) if options else to_tflite(graph)
    samples = compare.samples(graph, STEPS, 0)
    theirs = [run.outputs for run in litert.run(file, samples)]
    if row.ours == "refuse":
        with pytest.raises(CompileError):
            ops.check(run_passes(from_tflite(file, "network"), io="model")[0])
        wanted = [in_reals(graph, sample) for sample in samples]
        if "tanh" in row.form:
            wanted = [[np.tanh(each) for each in reals] for reals in wanted]
        meant = all(is_meant(graph, reals, outputs) for reals, outputs in zip(wanted, theirs, strict=True))
        assert not meant or ("pot_scale" in row.form and not same(computed(graph, samples), theirs))
        return
    imported = from_tflite(file, "network")
    ours = list(computed(run_passes(imported, io="model")[0], samples))
    if row.ours == "follow":
        assert same(ours, theirs) and difference(imported, imported.ops[0]) is None
        assert not all(is_meant(graph, in_reals(graph, sample), outputs) for sample, outputs in zip(samples, ours, strict=True))
        return
    assert not same(ours, theirs) or row.form == "outputs inside the network"  # which are undefined
    if graph.ops[0].kind in ops.FLOAT32 or ops.SPECS[kind].moves:
        assert all(is_meant(graph, in_reals(graph, sample), outputs) for sample, outputs in zip(samples, ours, strict=True))
    (tmp_path / "m.tflite").write_bytes(file)
    model = api.load(tmp_path / "m.tflite")
    result = api.verify_plan(model, api.plan(model), api.ProofOptions(count=STEPS), core=None)
    assert result.ok and result.first_difference is None and result.reference == "numpy reference"
    assert result.without_litert is not None and f"({kind}): LiteRT's kernel {row.litert}" in result.without_litert


def same(ours: Iterable[list[np.ndarray]], theirs: Iterable[list[np.ndarray]]) -> bool:
    return all(
        a.tobytes() == b.tobytes() for mine, other in zip(ours, theirs, strict=True) for a, b in zip(mine, other, strict=True)
    )


@pytest.mark.parametrize("dtype", ["int16", "int32"])
def test_an_embedding_in_wider_integers_is_refused(dtype: str) -> None:
    """LiteRT's kernel copies such integers as if they were floats."""
    table = constant("table", np.arange(12, dtype=dtype).reshape(4, 3), Quant((0.5,), (0,)))
    graph = graph_of("embedding_lookup", [Tensor("tokens", (2,), "int32"), table], Tensor("out", (2, 3), "float32"), {})
    with pytest.raises(CompileError, match="must have the input's type"):
        ops.check(from_tflite(to_tflite(graph), "network"))


def test_every_form_has_an_example() -> None:
    assert {row.form for row in DIFFERENCES} == set(EXAMPLES)
    assert all(kind in ops.SPECS for row in DIFFERENCES for kind in row.kinds)


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
