"""The TFLite importer on exported files, patched files, damaged files and real models."""

from __future__ import annotations

import itertools
import json
import random
import struct
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tflite
from cases.sweeps import PARTS, part_of

from tests.cases.ops import GENERATORS, cases
from tests.cases.tiny import NETWORKS
from tinyweave import api
from tinyweave.exporters import tflite as exporter
from tinyweave.exporters.tflite import to_tflite
from tinyweave.importers.tflite import MAX_COUNT, MAX_OPS, from_tflite
from tinyweave.importers.tflite_lowering import LOWERED
from tinyweave.ir import UNSUPPORTED, CompileError, Graph, Op, Quant, Tensor, diff, fingerprint, verify
from tinyweave.ops import SPECS
from tinyweave.passes import run_passes, run_tolerantly
from tinyweave.tflite_schema import OPS, WITHOUT_VALUE

Q = Quant((0.5,), (3,))
WITH_WEIGHTS = ("conv_2d", "depthwise_conv_2d", "fully_connected")


def convolution(
    size: tuple[int, int] = (6, 7), kernel: int = 3, stride: int = 2, dilation: int = 1, padding: Any = ((0, 1), (1, 1))
) -> Graph:
    """Return a graph of conv_2d and reshape; the shapes are those of SAME padding."""
    (h, w), rng = size, np.random.default_rng(1)
    weights = rng.integers(-127, 128, (4, kernel, kernel, 3)).astype(np.int8)
    bias = rng.integers(-999, 999, 4).astype(np.int32)
    scales = (0.25, 0.5, 0.125, 0.75)
    out_h, out_w = -(-h // stride), -(-w // stride)
    tensors = [
        Tensor("image", (1, h, w, 3), "int8", Q),
        Tensor("weights", weights.shape, "int8", Quant(scales, (0,) * 4, 0), weights, "constant"),
        Tensor("bias", (4,), "int32", Quant(tuple(s / 2 for s in scales), (0,) * 4, 0), bias, "constant"),
        Tensor("features", (1, out_h, out_w, 4), "int8", Quant((0.25,), (-7,))),
        Tensor("flat", (1, out_h * out_w * 4), "int8", Quant((0.25,), (-7,))),
        Tensor("extents", (2,), "int32", None, np.array([1, -1], np.int32), "constant"),
    ]
    attrs = {"stride": (stride, stride), "dilation": (dilation, dilation), "padding": padding, "activation": "relu6"}
    ops = (
        Op("conv_2d_0", "conv_2d", ("image", "weights", "bias"), ("features",), attrs),
        Op("reshape_1", "reshape", ("features", "extents"), ("flat",), {"new_shape": (1, -1)}),
    )
    return verify(Graph("net", {t.name: t for t in tensors}, ops, ("image",), ("flat",)))


@pytest.fixture
def file() -> bytes:
    return to_tflite(convolution())


def with_int4_weights(graph: Graph) -> Graph:
    """Return the graph with its weights, an odd number, replaced by random int4 values."""
    weights = graph.tensors["weights"]
    data = np.random.default_rng(0).integers(-8, 8, weights.shape, np.int8)
    return replace(graph, tensors=graph.tensors | {"weights": replace(weights, dtype="int4", data=data)})


def test_int4_weights_keep_their_type() -> None:
    graph = with_int4_weights(convolution())
    small, large = to_tflite(graph), to_tflite(convolution())
    assert len(small) < len(large)
    assert diff(from_tflite(small, "net"), graph) == []


@pytest.mark.parametrize("also", ["output", "operand"])
def test_int4_constants_with_other_uses_than_weights_become_int8(also: str) -> None:
    graph = with_int4_weights(convolution())
    odd = replace(graph.tensors["weights"], name="odd", shape=(15,), quant=None, data=np.arange(-8, 7, dtype=np.int8))
    if also == "output":
        kept = replace(graph, tensors=graph.tensors | {"odd": odd}, outputs=(*graph.outputs, "odd"))
    else:
        reshape = replace(graph.ops[1], name="other", inputs=("odd", "extents"), outputs=("line",))
        line = Tensor("line", (1, 15), "int8")
        tensors = graph.tensors | {"odd": odd, "line": line}
        kept = replace(graph, tensors=tensors, ops=(*graph.ops, reshape), outputs=(*graph.outputs, "line"))
    found = from_tflite(to_tflite(kept), "net").tensors["odd"]
    assert found.dtype == "int8" and np.array_equal(found.data, odd.data)


def test_int4_activations_are_refused() -> None:
    graph = convolution()
    narrow = replace(graph, tensors=graph.tensors | {"image": replace(graph.tensors["image"], dtype="int4")})
    with pytest.raises(CompileError, match="'image': is an int4 activation"):
        to_tflite(narrow)


@pytest.mark.litert
@pytest.mark.parametrize("kind", WITH_WEIGHTS)
def test_int4_weights_give_the_bytes_of_the_reference(kind: str, tmp_path: Path) -> None:
    seen = 0
    for case in itertools.islice((case for case in cases(kind) if case.graph.tensors["weights"].dtype == "int4"), 0, None, 12):
        (tmp_path / "net.tflite").write_bytes(to_tflite(case.graph))
        model = api.load(tmp_path / "net.tflite")
        result = api.verify_plan(model, api.plan(model), api.ProofOptions(count=2), core=None)
        assert result.ok and result.reference.startswith("LiteRT's reference kernels")
        seen += 1
    assert seen


def patch(file: bytes, table: Callable[[tflite.Model], Any], slot: int, form: str, value: int) -> bytes:
    """Return `file` with one scalar field of a table replaced; `slot` is the field's offset in the vtable."""
    tab = table(tflite.Model.GetRootAs(file, 0))._tab
    assert tab.Offset(slot), "a field with its default value is not in the file"
    changed = bytearray(file)
    struct.pack_into(form, changed, tab.Pos + tab.Offset(slot), value)
    return bytes(changed)


def patch_vector(file: bytes, table: Callable[[tflite.Model], Any], slot: int, index: int, value: int) -> bytes:
    """Return `file` with one element of a vector of int32 replaced; index -1 is its length."""
    tab = table(tflite.Model.GetRootAs(file, 0))._tab
    changed = bytearray(file)
    struct.pack_into("<i", changed, tab.Vector(tab.Offset(slot)) + 4 * index, value)
    return bytes(changed)


def tensor_table(name: str) -> Callable[[tflite.Model], tflite.Tensor]:
    def find(model: tflite.Model) -> tflite.Tensor:
        tensors = [model.Subgraphs(0).Tensors(i) for i in range(model.Subgraphs(0).TensorsLength())]
        return next(t for t in tensors if t.Name().decode() == name)

    return find


def refuses(file: bytes, *words: str) -> None:
    with pytest.raises(CompileError) as error:
        from_tflite(file, "net")
    for word in words:
        assert word in str(error.value)


def without_axis_of_one(graph: Graph) -> Graph:
    """Return the graph with single scales per tensor. A file does not distinguish a scale per tensor from one along axis 0."""
    quants = {n: replace(t.quant, axis=None) for n, t in graph.tensors.items() if t.quant and len(t.quant.scale) == 1}
    return replace(graph, tensors={n: replace(t, quant=quants.get(n, t.quant)) for n, t in graph.tensors.items()})


@pytest.mark.parametrize("kind", sorted(GENERATORS))
def test_every_kind_survives_the_round_trip_through_tflite(kind: str) -> None:
    for case in cases(kind):
        assert diff(without_axis_of_one(case.graph), from_tflite(to_tflite(case.graph), kind)) == [], case.id


def test_every_op_kind_has_a_tflite_operator() -> None:
    assert set(OPS) - {*WITHOUT_VALUE, *LOWERED} == set(SPECS)


def test_a_kind_uses_the_options_table_of_its_name() -> None:
    """The round trip does not detect a wrong table without fields, and LiteRT does not read it."""
    tables = {name.lower(): name for name in vars(tflite.BuiltinOptions)}
    own = {kind: tables.get(f"{kind.replace('_', '')}options") for kind in OPS}
    assert {kind: name for kind, name in own.items() if name} == {kind: OPS[kind].table for kind, name in own.items() if name}


# computed by hand: out = ceil(size / stride), needed = (out - 1) * stride + (kernel - 1) * dilation + 1 - size
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "dilation", "expected"),
    [
        (5, 3, 2, 1, (1, 1)),
        (6, 3, 2, 1, (0, 1)),
        (7, 3, 1, 2, (2, 2)),
        (96, 3, 2, 1, (0, 1)),
        (7, 4, 1, 1, (1, 2)),
        (9, 5, 3, 1, (1, 1)),
    ],
)
def test_same_padding_is_imported_as_explicit_padding(
    size: int, kernel: int, stride: int, dilation: int, expected: tuple[int, int]
) -> None:
    graph = convolution((size, size), kernel, stride, dilation, (expected, expected))
    file = to_tflite(graph)
    options = tflite.Model.GetRootAs(file, 0).Subgraphs(0).Operators(0).BuiltinOptions()
    conv = tflite.Conv2DOptions()
    conv.Init(options.Bytes, options.Pos)
    assert conv.Padding() == tflite.Padding.SAME
    assert diff(graph, from_tflite(file, "net")) == []


def test_constants_are_contiguous_and_read_only(file: bytes) -> None:
    weights = from_tflite(file, "net").tensors["weights"].data
    assert weights is not None and weights.flags.c_contiguous and not weights.flags.writeable
    assert (weights == convolution().tensors["weights"].data).all()


def test_equal_tensor_names_are_made_unique(file: bytes) -> None:
    assert file.count(b"\4\0\0\0bias\0") == 1
    graph = from_tflite(file.replace(b"\4\0\0\0bias\0", b"\4\0\0\0flat\0"), "net")
    assert graph.ops[0].inputs[2] == "flat" and graph.outputs == ("flat_4",)


def test_op_names_say_kind_and_position(file: bytes) -> None:
    assert [op.name for op in from_tflite(file, "net").ops] == ["conv_2d_0", "reshape_1"]


def test_a_tensor_with_a_scale_of_0_is_not_quantised(file: bytes) -> None:
    def quantization(model: tflite.Model) -> Any:
        return tensor_table("flat")(model).Quantization()

    assert from_tflite(patch_vector(file, quantization, 8, 0, 0), "net").tensors["flat"].quant is None


def test_a_bias_with_the_axis_of_its_depthwise_filter_has_axis_0(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = convolution()
    written = exporter._quantization

    def with_axis_3(builder: Any, quant: Quant, tensor: Tensor) -> int:
        return written(builder, Quant(quant.scale, quant.zero_point, 3) if tensor.name == "bias" else quant, tensor)

    monkeypatch.setattr(exporter, "_quantization", with_axis_3)
    file = to_tflite(graph)
    assert tensor_table("bias")(tflite.Model.GetRootAs(file, 0)).Quantization().QuantizedDimension() == 3
    assert diff(graph, from_tflite(file, "net")) == []


def test_data_stored_after_the_flatbuffer_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = convolution()
    payload = bytearray()
    start = 1 << 20  # longer than the flatbuffer

    def outside(builder: Any, tensor: Tensor) -> int:
        assert tensor.data is not None
        offset = start + len(payload)
        payload.extend(tensor.data.tobytes())
        return exporter._table(builder, "Buffer", Offset=offset, Size=tensor.bytes)

    monkeypatch.setattr(exporter, "_buffer", outside)
    file = to_tflite(graph)
    whole = file + bytes(start - len(file)) + payload
    assert diff(graph, from_tflite(whole, "net")) == []
    refuses(whole[:-1], "not a readable .tflite file")


def test_the_total_size_of_overlapping_buffers_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [Tensor(f"part_{i}", (4096,), "int32", None, np.arange(4096, dtype=np.int32), "constant") for i in range(8)]
    tensors = {t.name: t for t in (*parts, Tensor("all", (8 * 4096,), "int32"))}
    op = Op("concatenation_0", "concatenation", tuple(t.name for t in parts), ("all",), {"axis": 0, "activation": "none"})
    graph = Graph("net", tensors, (op,), (), ("all",))
    assert diff(graph, from_tflite(to_tflite(graph), "net")) == []
    write, written = exporter._buffer, []

    def once(builder: Any, tensor: Tensor) -> int:
        if not written:
            written.append(write(builder, tensor))
        return written[0]

    monkeypatch.setattr(exporter, "_buffer", once)
    refuses(to_tflite(graph), "its parts overlap")


def test_variables_survive_the_round_trip_as_state() -> None:
    graph = NETWORKS["stream"]()
    assert diff(without_axis_of_one(graph), from_tflite(to_tflite(graph), "stream")) == []


def test_variables_with_faulty_initialisation_are_refused() -> None:
    file = to_tflite(NETWORKS["stream"]())

    def op(subgraph: int, index: int) -> Callable[[tflite.Model], Any]:
        return lambda model: model.Subgraphs(subgraph).Operators(index)

    def options(model: tflite.Model) -> Any:
        called = tflite.CallOnceOptions()
        table = op(0, 0)(model).BuiltinOptions()
        called.Init(table.Bytes, table.Pos)
        return called

    kinds = {"call_once": 0, "var_handle": 1, "assign_variable": 2, "read_variable": 3}
    assert [op(0, i)(tflite.Model.GetRootAs(file, 0)).OpcodeIndex() for i in (0, 1, 2, 3)] == [0, 1, 1, 3]
    for number in (0, 7):
        refuses(patch(file, options, 4, "<i", number), "call_once_0", f"calls subgraph {number}")
    refuses(patch(file, op(1, 1), 4, "<I", kinds["read_variable"]), "call_once_0", "does more than initialise variables")
    refuses(patch_vector(file, op(1, 1), 6, 0, 1), "call_once_0", "does not assign a constant to a variable")
    refuses(patch_vector(file, op(1, 1), 6, 1, 2), "call_once_0", "does not assign a constant to a variable")
    refuses(patch_vector(file, op(1, 3), 6, 0, 0), "call_once_0", "twice")
    refuses(patch(file, op(1, 3), 4, "<I", kinds["var_handle"]), "has 0 outputs")
    reads = tflite.Model.GetRootAs(file, 0).Subgraphs(0).Operators(3)
    assert reads.OpcodeIndex() == kinds["read_variable"]
    refuses(patch_vector(file, op(0, 3), 6, 0, reads.Outputs(0)), "read_variable_0")
    refuses(patch_vector(file, lambda m: m.Subgraphs(0), 8, 0, reads.Inputs(0)), "input or output of the network")


def test_a_file_that_is_not_a_model_is_refused(file: bytes) -> None:
    for junk in (b"", b"TFL3", b"\x1c\0\0\0TFL3", b"hello, I am a text file", file[:4] + b"ONNX" + file[8:]):
        refuses(junk, "not a readable .tflite file")


def test_counts_and_extents_out_of_range_are_refused(file: bytes) -> None:
    def subgraph(model: tflite.Model) -> Any:
        return model.Subgraphs(0)

    features = tensor_table("features")
    refuses(patch_vector(file, features, 4, 1, 1 << 30), "features", "at most 16,777,216 are supported")
    refuses(patch_vector(file, features, 4, 1, -1), "features", "fixed shapes")
    refuses(patch_vector(file, features, 4, -1, 1 << 20), "features", "at most 8")
    refuses(patch_vector(file, subgraph, 4, -1, MAX_COUNT + 1), f"{MAX_COUNT + 1} tensors")
    refuses(patch_vector(file, subgraph, 10, -1, MAX_OPS + 1), f"{MAX_OPS + 1} ops")
    refuses(patch_vector(file, subgraph, 6, 0, 99), "tensor 99 of 6")
    refuses(patch_vector(file, lambda m: m.Subgraphs(0).Operators(0), 6, 0, -2), "tensor -2 of 6")
    refuses(patch(file, tensor_table("weights"), 8, "<I", 77), "buffer 77 of")


def test_a_missing_or_short_constant_is_refused(file: bytes) -> None:
    refuses(patch(file, tensor_table("bias"), 8, "<I", 0), "bias", "has no data")
    refuses(patch_vector(file, tensor_table("weights"), 4, 0, 5), "weights", "needs 135 bytes but its buffer has 108")


def test_a_scale_that_is_infinite_or_nan_is_refused(file: bytes) -> None:
    def quantization(model: tflite.Model) -> Any:
        return tensor_table("flat")(model).Quantization()

    for bits in (0x7F800000, 0x7F800001, 0x7FC00000):  # infinity, signalling and quiet NaN
        refuses(patch_vector(file, quantization, 8, 0, bits), "flat", "not a positive number")


def test_a_zero_point_beyond_its_type_is_refused(file: bytes) -> None:
    def quantization(model: tflite.Model) -> Any:
        return tensor_table("flat")(model).Quantization()

    file = patch_vector(file, quantization, 10, 1, 0)  # the upper half of an int64 that was negative
    assert from_tflite(patch_vector(file, quantization, 10, 0, 127), "net").tensors["flat"].zero_point == 127
    refuses(patch_vector(file, quantization, 10, 0, 128), "flat", "zero point 128, which int8 cannot hold")


@pytest.mark.parametrize("bits", [0x7F800000, 0xFF800000, 0x7FC00000])  # infinities, not a number
def test_an_option_that_is_infinite_or_nan_is_refused(bits: int) -> None:
    def options(model: tflite.Model) -> Any:
        table = model.Subgraphs(0).Operators(0).BuiltinOptions()
        softmax = tflite.SoftmaxOptions()
        softmax.Init(table.Bytes, table.Pos)
        return softmax

    tensors = [Tensor("x", (1, 4), "int8", Q), Tensor("y", (1, 4), "int8", Quant((1 / 256,), (-128,)))]
    op = Op("softmax_0", "softmax", ("x",), ("y",), {"beta": 2.0})
    file = to_tflite(verify(Graph("net", {t.name: t for t in tensors}, (op,), ("x",), ("y",))))
    refuses(patch(file, options, 4, "<I", bits), "softmax_0", "has the beta")


def test_unsupported_features_are_named(file: bytes) -> None:
    def code(model: tflite.Model) -> Any:
        return model.OperatorCodes(1)

    def options(model: tflite.Model) -> Any:
        return model.Subgraphs(0).Operators(0).BuiltinOptions()

    def wrap(table: Any) -> Any:
        conv = tflite.Conv2DOptions()
        conv.Init(table.Bytes, table.Pos)
        return conv

    other = patch(file, code, 4, "<b", tflite.BuiltinOperator.LSH_PROJECTION)
    refuses(
        patch(other, code, 10, "<i", tflite.BuiltinOperator.LSH_PROJECTION),
        "lsh_projection_1",
        "lsh_projection are not supported: tables of strings and hashes are not supported; look words up outside the network",
    )
    refuses(patch(file, code, 10, "<i", 100_000), "builtin_100000")
    refuses(patch(file, tensor_table("weights"), 6, "<b", tflite.TensorType.BFLOAT16), "weights", "BFLOAT16")
    refuses(patch(file, tensor_table("weights"), 6, "<b", tflite.TensorType.INT4), "weights", "needs 54 bytes")
    refuses(patch(file, tensor_table("features"), 6, "<b", tflite.TensorType.INT4), "features", "is an int4 activation")
    refuses(patch(file, lambda m: wrap(options(m)), 8, "<i", 0), "conv_2d_0", "stride")
    refuses(patch(file, lambda m: wrap(options(m)), 10, "<b", 5), "conv_2d_0", "fused activation number 5")


def test_all_problems_of_a_file_are_collected_on_request(file: bytes) -> None:
    """An op of an unknown kind and an op with a tensor of an unknown type are both reported; shapes are kept."""

    def code(model: tflite.Model) -> Any:
        return model.OperatorCodes(1)

    bad = patch(file, tensor_table("weights"), 6, "<b", tflite.TensorType.FLOAT16)
    bad = patch(bad, code, 4, "<b", tflite.BuiltinOperator.LSH_PROJECTION)
    bad = patch(bad, code, 10, "<i", tflite.BuiltinOperator.LSH_PROJECTION)
    problems: list[CompileError] = []
    graph = from_tflite(bad, "net", problems)
    assert [(error.op.name, error.op.kind, error.tensor) for error in problems if error.op] == [
        ("conv_2d_0", "conv_2d", "weights"),
        ("lsh_projection_1", "lsh_projection", None),
    ]
    assert [op.kind for op in graph.ops] == [UNSUPPORTED, UNSUPPORTED]
    assert [op.attrs["kind"] for op in graph.ops] == ["conv_2d", "lsh_projection"]
    assert graph.ops[0].inputs == ("image", None, "bias") and graph.outputs == ("flat",)
    assert {n: t.shape for n, t in graph.tensors.items()}["features"] == (1, 3, 4, 4)
    supported: list[CompileError] = []
    assert fingerprint(from_tflite(file, "net", supported)) == fingerprint(from_tflite(file, "net")) and not supported
    with pytest.raises(CompileError, match="not a readable"):
        from_tflite(bad[: len(bad) // 2], "net", [])


def import_or_refuse(file: bytes) -> None:
    for problems in (None, list[CompileError]()):
        try:
            graph = from_tflite(file, "net", problems)
            verify(graph)
            if problems is not None:
                run_tolerantly(graph, problems)
        except CompileError:
            continue


def test_a_file_cut_anywhere_is_imported_or_refused(file: bytes) -> None:
    for length in range(0, len(file), 3):
        import_or_refuse(file[:length])


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_file_is_imported_or_refused(file: bytes, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(400):
        changed = bytearray(file)
        for _ in range(rng.choice((1, 1, 2, 8))):
            changed[rng.randrange(len(changed))] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, rng.randrange(256)))
        import_or_refuse(bytes(changed))


def known_models(files: Iterable[Path]) -> list[tuple[Path, Graph]]:
    found = []
    for path in files:
        try:
            found.append((path, from_tflite(path.read_bytes(), path.stem)))
        except CompileError as error:
            assert "\n" not in str(error)
    return found


@pytest.mark.shared
def test_real_models_survive_the_round_trip_through_tflite(shared: Path) -> None:
    models = known_models((shared / "models").glob("*.tflite"))
    assert len(models) >= 70
    for path, graph in models:
        again = from_tflite(to_tflite(graph), path.stem)
        assert fingerprint(again) == fingerprint(graph), (path.name, diff(graph, again)[:5])


@pytest.mark.sweep
@pytest.mark.shared
@pytest.mark.litert
@pytest.mark.parametrize("part", range(PARTS))
def test_rewritten_real_models_give_the_same_outputs_in_litert(part: int, shared: Path, litert: ModuleType) -> None:
    runs_in_reference = {m["file"] for m in json.loads((shared / "models/index.json").read_text()) if m["ref_ok"]}
    rng = np.random.default_rng(7)
    compared = 0
    for path, graph in known_models(part_of((shared / "models").glob("*.tflite"), part)):
        if path.name not in runs_in_reference or "kws_ref_model_float32" in path.name:  # hybrid: test_float32.py compares it
            continue
        inputs = []
        for tensor in (graph.tensors[name] for name in graph.inputs):
            values = rng.integers(-128, 128, tensor.shape)
            inputs.append((values / 128 if tensor.dtype == "float32" else values).astype(tensor.dtype))
        ours, theirs = litert.run(to_tflite(graph), [inputs]), litert.run(path.read_bytes(), [inputs])
        for a, b in zip(ours[0].outputs, theirs[0].outputs, strict=True):
            assert a.dtype == b.dtype and a.tobytes() == b.tobytes(), path.name
        compared += 1
    assert compared > 4


def test_a_name_as_long_as_the_file_is_shortened() -> None:
    graph = convolution()
    name = "features\n\x1b[31m" + "x" * 100_000
    tensors = {
        name if n == "features" else n: replace(t, name=name if n == "features" else n) for n, t in graph.tensors.items()
    }
    tensors[name] = replace(tensors[name], shape=(1, 3, 9, 4))
    ops = tuple(
        replace(op, inputs=tuple(name if n == "features" else n for n in op.inputs), outputs=(name,) if not i else op.outputs)
        for i, op in enumerate(graph.ops)
    )
    file = to_tflite(replace(graph, tensors=tensors, ops=ops))
    with pytest.raises(CompileError, match="features") as error:
        run_passes(from_tflite(file, "net"), io="model")
    assert len(str(error.value)) < 500 and str(error.value).isprintable()


@pytest.mark.parametrize("value", [float("nan"), 1e30, 2.0])
def test_a_shape_of_floats_is_refused(value: float) -> None:
    graph = convolution()
    shape = Tensor("extents", (2,), "float32", None, np.array([1, value], np.float32), "constant")
    file = to_tflite(replace(graph, tensors=graph.tensors | {"extents": shape}))
    with pytest.raises(CompileError, match=r"reshape_1.*must be int32 or int64"):
        run_passes(from_tflite(file, "net"), io="model")


def test_a_file_without_a_subgraph_is_refused() -> None:
    data = bytearray(to_tflite(NETWORKS["chain"]()))
    table = tflite.Model.GetRootAs(bytes(data), 0)._tab
    count = table.Vector(table.Offset(SUBGRAPHS)) - 4
    assert data[count : count + 4] == bytes([1, 0, 0, 0])
    data[count : count + 4] = bytes(4)
    with pytest.raises(CompileError, match="the file has no subgraph"):
        from_tflite(bytes(data), "empty")


SUBGRAPHS = 8  # slot of the subgraphs in a model's table
