"""Forms of .tflite files that converters write: float16, sparse and weights-only constants, composites, several signatures."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import flatbuffers
import numpy as np
import pytest
from flatbuffers import flexbuffers

import tinyweave as tw
from tests.cases import floats
from tests.cases.draw import constant
from tests.fuzz.lowered import graph_of
from tinyweave import api
from tinyweave.exporters.tflite import to_tflite
from tinyweave.importers.tflite import MAX_OPS, from_tflite
from tinyweave.ir import CompileError, Graph, Quant, Tensor
from tinyweave.ops import check, run

schema = pytest.importorskip("ai_edge_litert.schema_py_generated", reason="needs LiteRT: pip install '.[verify]'")
Change = Callable[[Any], None]
RNG = np.random.default_rng(0)
DENSE, CSR = schema.DimensionType.DENSE, schema.DimensionType.SPARSE_CSR


def edited(file: bytes, change: Change) -> bytes:
    """Return a file after a change of its model, an object of LiteRT's schema."""
    model = schema.ModelT.InitFromPackedBuf(file, 0)
    change(model)
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def network() -> Graph:
    """Return a float network with a convolution, a depthwise one, a mean and a dense layer."""
    shapes = {"w": (6, 3, 3, 4), "b": (6,), "d": (1, 3, 3, 6), "e": (6,), "f": (5, 6)}
    tensors = [floats.fixed(name, RNG.normal(size=shape)) for name, shape in shapes.items()]
    tensors.append(floats.fixed("axes", np.array([1, 2])))
    layer = floats.WINDOW | {"activation": "relu", "dilation": (1, 1)}
    steps: list[floats.Step] = [("conv_2d", ("x", "w", "b"), layer), ("depthwise_conv_2d", ("t0", "d", "e"), layer)]
    steps += [("mean", ("t1", "axes"), {"keep_dims": False}), ("fully_connected", ("t2", "f", None), floats.DENSE)]
    return floats.float_graph(tensors, steps)


def outputs(graph: Graph, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    return list(run(check(graph), inputs).values())


def differs_from_litert(file: bytes, litert: ModuleType) -> float:
    """Return the largest difference of the imported graph from LiteRT, divided by LiteRT's largest output."""
    graph = from_tflite(file, "net")
    inputs = {name: RNG.normal(size=graph.tensors[name].shape).astype(np.float32) for name in graph.inputs}
    (theirs,) = litert.run(file, [list(inputs.values())])
    pairs = zip(outputs(graph, inputs), theirs.outputs, strict=True)
    return max(float(np.abs(ours - right).max() / np.abs(right).max()) for ours, right in pairs)


def add_op(model: Any, kind: str, reads: list[int], writes: list[int], at: int | None = None) -> Any:
    """Insert an op of a builtin kind into the first subgraph, at the end by default, and return it."""
    code = schema.OperatorCodeT()
    code.builtinCode = getattr(schema.BuiltinOperator, kind)
    code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), 1
    op = schema.OperatorT()
    op.opcodeIndex, op.inputs, op.outputs = len(model.operatorCodes), reads, writes
    model.operatorCodes.append(code)
    ops = model.subgraphs[0].operators
    ops.insert(len(ops) if at is None else at, op)
    return op


def stored(model: Any, name: str) -> Any:
    return next(tensor for tensor in model.subgraphs[0].tensors if tensor.name == name.encode())


def stored_as(model: Any, name: str, values: np.ndarray, dtype: str) -> Any:
    """Store other values of a constant, of another type, and return its tensor."""
    tensor = stored(model, name)
    tensor.type = getattr(schema.TensorType, dtype)
    model.buffers[tensor.buffer].data = np.frombuffer(values.tobytes(), np.uint8)
    return tensor


def converted(model: Any, name: str, kind: str = "DEQUANTIZE") -> None:
    """Let the readers of a constant read what an op of this kind makes of it."""
    graph = model.subgraphs[0]
    index = next(i for i, tensor in enumerate(graph.tensors) if tensor.name == name.encode())
    made = schema.TensorT()
    made.name, made.shape, made.type, made.hasRank = f"{name} made".encode(), graph.tensors[index].shape, 0, True
    for op in graph.operators:
        op.inputs = [len(graph.tensors) if i == index else i for i in op.inputs]
    graph.tensors.append(made)
    add_op(model, kind, [index], [len(graph.tensors) - 1], 0)


def test_a_file_without_a_subgraph_is_refused() -> None:
    with pytest.raises(CompileError, match="the file has no subgraph"):
        from_tflite(edited(to_tflite(network()), lambda model: model.subgraphs.clear()), "net")


def in_float16(model: Any) -> None:
    for name in ("w", "b", "d", "e", "f"):
        tensor = stored(model, name)
        values = np.asarray(model.buffers[tensor.buffer].data, np.uint8).view(np.float32).astype(np.float16)
        stored_as(model, name, values, "FLOAT16")
        converted(model, name)


@pytest.mark.litert
def test_float16_weights_become_float32(litert: ModuleType, tmp_path: Path) -> None:
    plain = network()
    file = edited(to_tflite(plain), in_float16)
    graph = from_tflite(file, "net")
    assert [op.kind for op in graph.ops] == [op.kind for op in plain.ops]
    for op, own in zip(graph.ops, plain.ops, strict=True):
        for mine, theirs in zip(graph.inputs_of(op)[1:], plain.inputs_of(own)[1:], strict=True):
            if mine is not None and theirs is not None and theirs.data is not None and theirs.dtype == "float32":
                assert np.array_equal(mine.data, theirs.data.astype(np.float16).astype(np.float32))  # type: ignore[arg-type]
    assert differs_from_litert(file, litert) < 1e-6
    assert_quantises(file, tmp_path)


def assert_quantises(file: bytes, folder: Path) -> None:
    """Check that a file can be quantised and that LiteRT computes the int8 network as the C does."""
    (folder / "net.tflite").write_bytes(file)
    np.save(folder / "samples.npy", RNG.normal(size=(8, 8, 8, 4)).astype(np.float32))
    (folder / "int8.tflite").write_bytes(tw.quantize(folder / "net.tflite", folder / "samples.npy").file)
    model = tw.load(folder / "int8.tflite")
    result = api.verify_plan(model, tw.plan(model), api.ProofOptions(count=4), core=None)
    assert result.ok and result.reference.startswith("LiteRT's reference kernels")


@pytest.mark.parametrize("name", ["x", "t3"])
def test_float16_inputs_and_outputs_are_refused(name: str) -> None:
    def halved(model: Any) -> None:
        stored(model, name).type = schema.TensorType.FLOAT16

    with pytest.raises(CompileError, match=f"tensor '{name}': has the type FLOAT16"):
        from_tflite(edited(to_tflite(network()), halved), "net")


def quantised(model: Any, name: str, dtype: str, axis: int | None) -> np.ndarray:
    """Store a float constant as integers with a scale per tensor or per channel, and return what they stand for."""
    tensor = stored(model, name)
    values = np.asarray(model.buffers[tensor.buffer].data, np.uint8).view(np.float32).reshape(tensor.shape)
    others = tuple(i for i in range(values.ndim) if i != axis)
    scale = (np.abs(values).max(others if axis is not None else None, keepdims=True) / 127).astype(np.float32)
    zero = 128 if dtype == "UINT8" else 0
    integers = np.clip(np.rint(values / scale) + zero, zero - 127, zero + 127).astype(dtype.lower())
    stored_as(model, name, integers, dtype)
    tensor.quantization = schema.QuantizationParametersT()
    tensor.quantization.scale, tensor.quantization.quantizedDimension = scale.ravel(), axis or 0
    tensor.quantization.zeroPoint = np.full(scale.size, zero, np.int64)
    return np.asarray(scale.astype(np.float64) * (integers.astype(np.float64) - zero), np.float32)


AXES = {"w": 0, "d": 3, "f": 0}


@pytest.mark.litert
@pytest.mark.parametrize("explicit", [False, True], ids=["dynamic range", "weights only"])
@pytest.mark.parametrize(("dtype", "per_channel"), [("INT8", True), ("INT8", False), ("UINT8", False)])
def test_integer_weights_of_float_layers_become_float32(
    dtype: str, per_channel: bool, explicit: bool, litert: ModuleType, tmp_path: Path
) -> None:
    real: dict[str, np.ndarray] = {}

    def change(model: Any) -> None:
        for name, axis in AXES.items():
            real[name] = quantised(model, name, dtype, axis if per_channel else None)
            if explicit:
                converted(model, name)

    file = edited(to_tflite(network()), change)
    graph = from_tflite(file, "net")
    weights = [graph.input(op, 1) for op in graph.ops if op.kind != "mean"]
    # LiteRT has no hybrid kernel of uint8, and its hybrid depthwise kernel reads a scale per channel even if there is one
    in_litert = dtype == "INT8" and (per_channel or explicit)
    assert all(np.array_equal(t.data, values) for t, values in zip(weights, real.values(), strict=True))  # type: ignore[arg-type]
    if in_litert:
        assert differs_from_litert(file, litert) < (1e-6 if explicit else 0.02)  # a hybrid kernel rounds the activations
    if dtype == "INT8" and per_channel:
        assert_quantises(file, tmp_path)


def test_scales_that_do_not_match_their_axis_are_refused() -> None:
    def change(model: Any) -> None:
        quantised(model, "w", "INT8", 0)
        stored(model, "w").quantization.scale = np.ones(5, np.float32)

    with pytest.raises(CompileError, match="'w': has 5 scales and 6 zero points for axis 0"):
        from_tflite(edited(to_tflite(network()), change), "net")


@pytest.mark.litert
def test_an_embedding_in_int8_gives_floats(litert: ModuleType) -> None:
    table = constant("table", RNG.normal(size=(9, 4)).astype(np.float32))
    tokens, out = Tensor("tokens", (3,), "int32"), Tensor("out", (3, 4), "float32")
    plain = to_tflite(graph_of("embedding_lookup", [tokens, table], out, {}))
    file = edited(plain, lambda model: set(quantised(model, "table", "INT8", None).shape).clear())
    inputs = np.array([8, 0, 3], np.int32)
    (theirs,) = litert.run(file, [[inputs]])
    (ours,) = outputs(from_tflite(file, "net"), {"tokens": inputs})
    assert np.array_equal(ours, theirs.outputs[0])


@pytest.mark.litert
def test_the_first_of_several_signatures_is_imported(litert: ModuleType) -> None:
    def doubled(model: Any) -> None:
        other = schema.ModelT.InitFromPackedBuf(to_tflite(floats.convolution(1)), 0)
        for tensor in other.subgraphs[0].tensors:
            tensor.buffer += len(model.buffers)
        for op in other.subgraphs[0].operators:
            op.opcodeIndex += len(model.operatorCodes)
        model.buffers += other.buffers
        model.operatorCodes += other.operatorCodes
        model.subgraphs += other.subgraphs

    plain = to_tflite(network())
    file = edited(plain, doubled)
    assert [op.kind for op in from_tflite(file, "net").ops] == [op.kind for op in from_tflite(plain, "net").ops]
    assert differs_from_litert(file, litert) < 1e-6


def sparsity(values: np.ndarray, order: list[int], block: dict[int, int], formats: list[int]) -> tuple[Any, np.ndarray]:
    """Return the sparse form of an array and its stored elements.

    Args:
        values: the whole array.
        order: the order of its axes.
        block: axis -> its blocks' extent.
        formats: DENSE or CSR for each axis in this order; blocks are dense.
    """
    rank = values.ndim
    split = values.reshape(
        [n for axis, extent in enumerate(values.shape) for n in (extent // block.get(axis, 1), block.get(axis, 1))]
    )
    ordered = split.transpose(
        [2 * axis for axis in order]
        + [2 * axis + 1 for axis in block]
        + [2 * axis + 1 for axis in range(rank) if axis not in block]
    )
    ordered = ordered.reshape(ordered.shape[: rank + len(block)])
    parameters = schema.SparsityParametersT()
    parameters.traversalOrder = [*order, *(rank + i for i in range(len(block)))]
    parameters.blockMap = list(block)
    parameters.dimMetadata = []
    kept = [()]
    for level, form in enumerate([*formats, *[DENSE] * len(block)]):
        row = schema.DimensionMetadataT()
        row.format, row.denseSize = form, ordered.shape[level] if form == DENSE else 0
        parameters.dimMetadata.append(row)
        children = [[(*at, i) for i in range(ordered.shape[level])] for at in kept]
        if form == CSR:
            children = [[at for at in each if ordered[at].any()] for each in children]
            kind = ("Int32Vector", "Uint16Vector", "Uint8Vector")[level % 3]
            row.arraySegmentsType = row.arrayIndicesType = getattr(schema.SparseIndexVector, kind)
            row.arraySegments, row.arrayIndices = (getattr(schema, f"{kind}T")() for _ in range(2))
            dtype = {"I": np.int32, "U": np.uint16 if "16" in kind else np.uint8}[kind[0]]
            row.arraySegments.values = np.cumsum([0, *map(len, children)]).astype(dtype)
            row.arrayIndices.values = np.array([at[-1] for each in children for at in each], dtype)
        kept = list(itertools.chain(*children))
    return parameters, np.array([ordered[at] for at in kept], values.dtype)


SPARSE: dict[str, tuple[tuple[int, ...], list[int], dict[int, int], list[int]]] = {
    "rows": ((5, 8), [0, 1], {}, [DENSE, CSR]),
    "columns": ((5, 8), [1, 0], {}, [DENSE, CSR]),
    "rows and columns": ((5, 8), [0, 1], {}, [CSR, CSR]),
    "blocks of 1x4": ((5, 8), [0, 1], {1: 4}, [DENSE, CSR]),
    "blocks of 2x4": ((6, 8), [1, 0], {0: 2, 1: 4}, [CSR, CSR]),
    "a filter": ((4, 3, 3, 8), [0, 1, 2, 3], {3: 2}, [DENSE, CSR, DENSE, CSR]),
    "dense": ((5, 8), [1, 0], {}, [DENSE, DENSE]),
}


def sparse_file(name: str, dtype: str = "float32") -> tuple[bytes, np.ndarray]:
    """Return a file of an add of a densified sparse constant, and the constant."""
    shape, order, block, formats = SPARSE[name]
    values = RNG.normal(size=shape) * (RNG.random(shape) < 0.3)
    values[0] = 0
    values = values.astype(dtype)
    x, out = Tensor("x", shape, "float32"), Tensor("out", shape, "float32")
    graph = graph_of("add", [x, constant("c", np.zeros(shape, np.float32))], out, {"activation": "none"})

    def change(model: Any) -> None:
        parameters, kept = sparsity(values, order, block, formats)
        stored_as(model, "c", kept, dtype.upper()).sparsity = parameters
        converted(model, "c", "DENSIFY")
        if dtype == "float16":
            stored(model, "c made").type = schema.TensorType.FLOAT16
            converted(model, "c made")
            ops = model.subgraphs[0].operators
            ops[0], ops[1] = ops[1], ops[0]

    return edited(to_tflite(graph), change), values


@pytest.mark.litert
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", SPARSE)
def test_sparse_constants_are_decoded(name: str, dtype: str, litert: ModuleType) -> None:
    file, values = sparse_file(name, dtype)
    graph = from_tflite(file, "net")
    (op,) = graph.ops
    assert np.array_equal(graph.input(op, 1).data, values.astype(np.float32)) and values.any()  # type: ignore[arg-type]
    assert differs_from_litert(file, litert) == 0


@pytest.mark.litert
def test_sparse_weights_are_decoded(litert: ModuleType) -> None:
    values = np.zeros((5, 6), np.float32)
    values[[0, 2, 2, 4], [1, 0, 5, 3]] = RNG.normal(size=4)

    def change(model: Any) -> None:
        parameters, kept = sparsity(values, [0, 1], {}, [DENSE, CSR])
        stored_as(model, "f", kept, "FLOAT32").sparsity = parameters

    file = edited(to_tflite(network()), change)
    assert np.array_equal(from_tflite(file, "net").input(from_tflite(file, "net").ops[-1], 1).data, values)  # type: ignore[arg-type]
    assert differs_from_litert(file, litert) < 1e-6


def with_block(parameters: Any, size: int) -> None:
    parameters.blockMap, parameters.traversalOrder = [1], [0, 1, 2]
    parameters.dimMetadata.append(schema.DimensionMetadataT())
    parameters.dimMetadata[2].denseSize = size


def assign(**values: Any) -> Change:
    return lambda table: [setattr(table, name, value) for name, value in values.items()] and None


def on_rows(field: str, change: Callable[[np.ndarray], np.ndarray]) -> Change:
    """Change the numbers of the compressed rows."""

    def changed(table: Any) -> None:
        vector = getattr(table.dimMetadata[1], field)
        vector.values = change(vector.values)

    return changed


DAMAGE: dict[str, Change] = {
    "index": on_rows("arrayIndices", lambda values: values + 7),
    "index at the extent": on_rows(
        "arrayIndices", lambda values: np.where(values == values.max(), 8, values).astype(np.uint16)
    ),
    "negative segment": on_rows("arraySegments", lambda values: values.astype(np.int32) - 1),
    "unordered segments": on_rows("arraySegments", lambda values: values[::-1].copy()),
    "few segments": on_rows("arraySegments", lambda values: values[[0, -1]]),
    "no segments": lambda table: assign(arraySegments=None, arraySegmentsType=0)(table.dimMetadata[1]),
    "size": lambda table: assign(denseSize=1 << 30)(table.dimMetadata[0]),
    "negative size": lambda table: assign(denseSize=-5)(table.dimMetadata[0]),
    "order": assign(traversalOrder=[0, 0]),
    "large order": assign(traversalOrder=[0, 1 << 20]),
    "block of a missing axis": assign(blockMap=[9]),
    "block without a level": assign(blockMap=[1], traversalOrder=[0, 1, 2]),
    "block of 0": lambda table: with_block(table, 0),
    "block of 3": lambda table: with_block(table, 3),
    "few values": lambda table: assign(format=DENSE, denseSize=8)(table.dimMetadata[1]),
    "levels": lambda table: table.dimMetadata.pop() and None,
}


@pytest.mark.parametrize("how", DAMAGE)
def test_damaged_sparse_constants_are_refused(how: str) -> None:
    file = edited(sparse_file("rows")[0], lambda model: DAMAGE[how](stored(model, "c").sparsity))
    with pytest.raises(CompileError, match="'c': is stored sparse in a form that cannot be read") as caught:
        from_tflite(file, "net")
    assert caught.value.what_to_do == "the file may be damaged"


def test_a_densify_of_a_computed_tensor_is_refused() -> None:
    plain = to_tflite(graph_of("relu", [Tensor("x", (2,), "float32")], Tensor("out", (2,), "float32"), {}))

    def change(model: Any) -> None:
        model.operatorCodes[0].builtinCode = schema.BuiltinOperator.DENSIFY
        model.operatorCodes[0].deprecatedBuiltinCode = schema.BuiltinOperator.DENSIFY

    with pytest.raises(CompileError, match=r"densify\): has an unsupported form"):
        from_tflite(edited(plain, change), "net")


TANH = schema.ActivationFunctionType.TANH


def fused(graph: Graph, activation: int) -> bytes:
    def change(model: Any) -> None:
        (op,) = model.subgraphs[0].operators
        op.builtinOptions.fusedActivationFunction = activation

    return edited(to_tflite(graph), change)


def layer(kind: str) -> Graph:
    """Return a float op of a kind that can have a fused activation."""
    x, window = Tensor("x", (1, 4, 4, 3), "float32"), floats.WINDOW | {"activation": "none", "dilation": (1, 1)}
    weights = {"conv_2d": (3, 3, 3, 3), "depthwise_conv_2d": (1, 3, 3, 3), "fully_connected": (2, 3), "add": (3,), "mul": (3,)}
    attrs = {"conv_2d": window, "depthwise_conv_2d": window, "fully_connected": floats.DENSE | {"keep_num_dims": True}}
    operands: list[Tensor | None] = [x, constant("w", RNG.normal(size=weights[kind]).astype(np.float32))]
    out = Tensor("out", (1, 4, 4, 2 if kind == "fully_connected" else 3), "float32")
    return graph_of(kind, operands, out, attrs.get(kind, {"activation": "none"}))


@pytest.mark.parametrize("kind", ["conv_2d", "depthwise_conv_2d", "fully_connected", "add", "mul"])
def test_a_fused_tanh_becomes_an_op(kind: str) -> None:
    plain = layer(kind)
    graph = from_tflite(fused(plain, TANH), "net")
    assert [op.kind for op in graph.ops] == [kind, "tanh"] and graph.ops[0].attrs["activation"] == "none"
    inputs = {"x": RNG.normal(size=(1, 4, 4, 3)).astype(np.float32)}
    (ours,), (before,) = outputs(graph, inputs), outputs(plain, inputs)
    assert np.allclose(ours, np.tanh(before), rtol=0, atol=1e-6) and np.abs(before).max() > 1


def test_a_fused_tanh_on_integers_and_a_fused_sign_bit_are_refused() -> None:
    x, out = (Tensor(name, (4,), "int8", Quant((0.5,), (0,))) for name in ("x", "out"))
    add = graph_of("add", [x, replace(x, name="y")], out, {"activation": "none"})
    with pytest.raises(CompileError, match=r"op add_0 \(add\): is int8 with the fused activation tanh"):
        from_tflite(fused(add, TANH), "net")
    with pytest.raises(CompileError, match="fused activation number 5; supported: none, relu,"):
        from_tflite(fused(add, schema.ActivationFunctionType.SIGN_BIT), "net")


def composite(model: Any, part: int, reads: list[int], writes: list[int], at: int | None = None) -> None:
    """Add to the first subgraph a composite whose decomposition is the subgraph `part`."""
    op = add_op(model, "STABLEHLO_COMPOSITE", reads, writes, at)
    op.builtinOptions2Type = schema.BuiltinOptions2.StableHLOCompositeOptions
    op.builtinOptions2 = schema.StableHLOCompositeOptionsT()
    op.builtinOptions2.name, op.builtinOptions2.decompositionSubgraphIndex = "odml.part", part
    op.builtinOptions2.compositeAttributes = np.frombuffer(flexbuffers.Dumps({}), np.uint8)


def nested(model: Any) -> None:
    """Move the ops of a network into a decomposition, and the last two of these into a second one."""
    main = model.subgraphs[0]
    inner = schema.SubGraphT()
    inner.tensors, inner.inputs, inner.outputs = main.tensors, main.inputs, main.outputs
    inner.operators = main.operators[:-2]
    last = schema.SubGraphT()
    last.tensors, last.inputs, last.outputs = list(main.tensors), main.operators[-2].inputs[:1], main.outputs
    last.operators = main.operators[-2:]
    ends = [main.tensors[i] for i in (*main.inputs, *main.outputs)]
    main.tensors, main.operators, main.inputs, main.outputs = ends, [], [0], [1]
    model.subgraphs += [inner, last]
    composite(model, 1, [0], [1])
    outer = model.subgraphs[0].operators
    composite(model, 2, list(last.inputs), list(inner.outputs))
    inner.operators.append(outer.pop())
    model.signatureDefs = []


@pytest.mark.litert
def test_a_composite_is_replaced_by_its_decomposition(litert: ModuleType, tmp_path: Path) -> None:
    plain = network()
    file = edited(to_tflite(plain), nested)
    graph = from_tflite(file, "net")
    assert [op.kind for op in graph.ops] == [op.kind for op in plain.ops]
    inputs = {"x": RNG.normal(size=(1, 8, 8, 4)).astype(np.float32)}
    assert np.array_equal(outputs(graph, inputs)[0], outputs(plain, inputs)[0])
    assert differs_from_litert(file, litert) < 1e-6
    assert_quantises(file, tmp_path)


def broken(how: str) -> Change:
    def change(model: Any) -> None:
        nested(model)
        main, inner, last = model.subgraphs
        (op,) = main.operators
        match how:
            case "itself":
                inner.operators[-1].builtinOptions2.decompositionSubgraphIndex = 1
            case "the network":
                op.builtinOptions2.decompositionSubgraphIndex = 0
            case "a missing subgraph":
                op.builtinOptions2.decompositionSubgraphIndex = 3
            case "no options":
                op.builtinOptions2, op.builtinOptions2Type = None, 0
            case "operands":
                inner.inputs = []
            case "an input":
                inner.outputs = inner.inputs
            case "doubling":  # 2^20 decompositions without an op
                for depth in range(20):
                    part = schema.SubGraphT()
                    part.tensors, part.inputs, part.outputs, part.operators = last.tensors, [], [], []
                    model.subgraphs.append(part)
                    for _ in range(2 if depth < 19 else 0):
                        composite(model, len(model.subgraphs), [], [])
                        part.operators.append(main.operators.pop())
                composite(model, 3, [], [], 0)

    return change


BROKEN = {
    "itself": "has subgraph 1 as its decomposition",
    "the network": "has subgraph 0 as its decomposition",
    "a missing subgraph": "has subgraph 3 as its decomposition",
    "no options": "has no StableHLOCompositeOptions",
    "operands": "has other operands than its decomposition",
    "an input": "returns an input, a constant or a tensor twice",
    "doubling": f"too many composites; at most {MAX_OPS}|has subgraph [0-9]+ as its decomposition|composites have more than",
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_composite_is_refused(how: str) -> None:
    with pytest.raises(CompileError, match=BROKEN[how]):
        from_tflite(edited(to_tflite(network()), broken(how)), "net")
