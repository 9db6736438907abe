"""Export a Graph as a .tflite file, and reorder or rewrite the ops of a .tflite file.

In: a Graph. Out: bytes that LiteRT and Netron open, equal for equal graphs. Functions that take a flatbuffers.Builder write a
table, string or vector, and return its offset. Source: TFLite schema.fbs; op versions as in TFLite's op_version.cc.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from typing import Any, NamedTuple
from zipfile import BadZipFile, ZipFile

import flatbuffers
import numpy as np
import tflite

from ..ir import CompileError, Graph, Op, Quant, Tensor, packed, verify
from ..ops import spec_of
from ..tflite_schema import (
    CUSTOM,
    IDENTIFIER,
    NO_OPERANDS,
    OPS,
    SCHEMA_VERSION,
    TYPES,
    WITHOUT_VALUE,
    custom_options,
    float32,
    kind_of,
    values,
)

BUFFER_ALIGN = 16
Codes = Mapping[tuple[str, int], int]  # (op kind, version) -> index of its OperatorCode
Feature = Callable[[Graph, Op, Tensor], bool]  # whether an op with this data input uses a feature
PLACES = "OfflineMemoryAllocation"  # the metadata entry with the offset of each tensor in TFLite Micro's arena
MOST_ENTRIES = 1 << 8  # metadata entries, signatures, and their tensors, that are copied from a file
OPERATORS_SLOT = 10  # vtable offset of SubGraph.operators: 4 + 2 * its position in the schema


class Signature(NamedTuple):
    """Names of inputs and outputs for TFLite's signature runner: pairs of a name and a tensor."""

    key: str
    inputs: Sequence[tuple[str, str]]
    outputs: Sequence[tuple[str, str]]


def to_tflite(
    graph: Graph,
    *,
    metadata: Mapping[str, bytes] | None = None,
    signature: bool | Sequence[Signature] = False,
    places: Mapping[str, int] | None = None,
) -> bytes:
    """Return a graph as the bytes of a .tflite file; raise CompileError if the format cannot hold it.

    Args:
        metadata: contents of the metadata entries, by name.
        signature: signatures; True for one, `serving_default`, with the names of the tensors.
        places: offset of each activation in TFLite Micro's arena, for the metadata entry PLACES; None for no such entry.
    """
    verify(graph)
    for tensor in graph.tensors.values():
        if tensor.dtype == "int4" and tensor.data is None:
            raise CompileError("is an int4 activation", "TFLite supports int4 for constants only", tensor=tensor)
    builder = flatbuffers.Builder(1024)
    variables = _variables(graph)
    initial = {op.inputs[0] for op in graph.init}
    main = [t for t in graph.tensors.values() if t.name not in initial]
    main += [tensor for op in graph.ops for tensor in _intermediates(graph, op)]
    indices = {t.name: index for index, t in enumerate(main)}
    constants = [t for t in graph.tensors.values() if t.data is not None]
    buffer_of = {t.name: index for index, t in enumerate(constants, start=1)}
    setup = [("call_once", 1), ("var_handle", 1), ("assign_variable", 1)] if variables else []
    used = dict.fromkeys((*setup, *((op.kind, _version(graph, op)) for op in graph.ops)))
    codes = {code: index for index, code in enumerate(used)}

    tensors = [_resource(builder, t) if t.name in variables else _tensor(builder, t, buffer_of.get(t.name, 0)) for t in main]
    call = Op("init", "call_once", (), (), {"subgraph": 1})
    ops = [_operator(builder, NO_OPERANDS, call, codes["call_once", 1], ([], []))] if variables else []
    ops += [_var_handle(builder, name, indices[name], codes) for name in variables]
    ops += [_op(builder, graph, op, indices, codes) for op in graph.ops]
    inputs, outputs = ([indices[name] for name in names] for names in (graph.inputs, graph.outputs))
    subgraphs = [_subgraph(builder, graph.name, tensors, ops, (_ints(builder, inputs), _ints(builder, outputs)))]
    if variables:
        subgraphs.append(_initialiser(builder, graph, variables, buffer_of, codes))
    entries = dict(metadata or {})
    if places is not None:  # the initialiser has two tensors per variable
        entries[PLACES] = _places([places.get(tensor.name, -1) for tensor in main] + [-1, -1] * len(variables))
    first = len(constants) + 1  # index of the buffer of the first entry
    extra = {"Metadata": _metadata(builder, list(entries), first)} if entries else {}
    signatures = [_default_signature(graph)] if signature is True else signature or []
    extra |= {"SignatureDefs": _signatures(builder, signatures, indices)} if signatures else {}
    model = _table(
        builder,
        "Model",
        Version=SCHEMA_VERSION,
        OperatorCodes=_offsets(builder, [_operator_code(builder, kind, version) for kind, version in codes]),
        Subgraphs=_offsets(builder, subgraphs),
        Description=builder.CreateString("tinyweave"),
        Buffers=_buffers(builder, constants, entries.values()),
        **extra,
    )
    builder.Finish(model, file_identifier=IDENTIFIER)
    return bytes(builder.Output())


def _subgraph(builder: flatbuffers.Builder, name: str, tensors: list[int], ops: list[int], edges: tuple[int, int]) -> int:
    """Write a SubGraph from the offsets of its tensors, ops, and vectors of inputs and outputs (`edges`)."""
    title, tensor_list, op_list = builder.CreateString(name), _offsets(builder, tensors), _offsets(builder, ops)
    return _table(builder, "SubGraph", Name=title, Tensors=tensor_list, Inputs=edges[0], Outputs=edges[1], Operators=op_list)


def _metadata(builder: flatbuffers.Builder, names: Sequence[str], first: int) -> int:
    """Write the vector of metadata entries; the content of the i-th is in the buffer first + i."""
    entries = ({"Name": builder.CreateString(name), "Buffer": index} for index, name in enumerate(names, first))
    return _offsets(builder, [_table(builder, "Metadata", **entry) for entry in entries])


def _places(offsets: Sequence[int]) -> bytes:
    """Return the entry PLACES: version, subgraph, count, and the offset of each tensor; TFLite Micro places those with -1."""
    return struct.pack(f"<{3 + len(offsets)}i", 1, 0, len(offsets), *offsets)


def _default_signature(graph: Graph) -> Signature:
    return Signature("serving_default", *([(name, name) for name in names] for names in (graph.inputs, graph.outputs)))


def _signatures(builder: flatbuffers.Builder, signatures: Sequence[Signature], indices: Mapping[str, int]) -> int:
    """Write the vector of signatures; `indices` are those of the tensors."""

    def tensor_maps(pairs: Sequence[tuple[str, str]]) -> int:
        fields = ({"Name": builder.CreateString(name), "TensorIndex": indices[tensor]} for name, tensor in pairs)
        return _offsets(builder, [_table(builder, "TensorMap", **each) for each in fields])

    defs = []
    for each in signatures:
        inputs, outputs, key = tensor_maps(each.inputs), tensor_maps(each.outputs), builder.CreateString(each.key)
        defs.append(_table(builder, "SignatureDef", Inputs=inputs, Outputs=outputs, SignatureKey=key))
    return _offsets(builder, defs)


def _variables(graph: Graph) -> list[str]:
    """Return the states that read or assign ops access, which become resource variables; TFLite starts others with 0."""
    named = [op for op in graph.ops if spec_of(op).family == "state"]
    touched = dict.fromkeys(name for op in named for name in (*op.inputs, *op.outputs) if name is not None)
    names = [name for name in touched if graph.tensors[name].role == "state"]
    for op in graph.init:
        (state,), value = graph.outputs_of(op), graph.input(op).data
        zero = state.zero_point if state.dtype == "int8" and state.quant is not None else 0
        if state.name not in names and not (value is not None and (value == zero).all()):
            raise CompileError("has an initial value other than 0", ".tflite supports only 0", tensor=state)
    return names


def _intermediates(graph: Graph, op: Op) -> list[Tensor]:
    """Return the five intermediate tensors of an integer LSTM, of which TFLite uses the last, with the hidden scale."""
    if op.kind != "unidirectional_sequence_lstm" or graph.input(op).dtype == "float32":
        return []
    unused = [Tensor(f"{op.name}.intermediate_{i}", (0,), "float32") for i in range(4)]
    return [*unused, replace(graph.output(op), name=f"{op.name}.hidden", shape=(0,))]


def _resource(builder: flatbuffers.Builder, tensor: Tensor) -> int:
    """Write the handle, a tensor by which ops refer to the resource variable of the state `tensor`, and return its offset."""
    name, shape = builder.CreateString(tensor.name), _ints(builder, [])
    return _table(builder, "Tensor", Type=tflite.TensorType.RESOURCE, Name=name, Shape=shape, HasRank=True)


def _var_handle(builder: flatbuffers.Builder, name: str, index: int, codes: Codes) -> int:
    op = Op(name, "var_handle", (), (), {"container": b"", "shared_name": name.encode()})
    return _operator(builder, NO_OPERANDS, op, codes["var_handle", 1], ([], [index]))


def _initialiser(
    builder: flatbuffers.Builder, graph: Graph, variables: list[str], buffer_of: Mapping[str, int], codes: Codes
) -> int:
    """Write the subgraph that assigns the resource variables their initial values; `codes` is (op kind, version) -> index."""
    tensors, ops = list[int](), list[int]()
    for op in graph.init:
        (state,), value = op.outputs, graph.input(op)
        if state in variables:
            handle = len(tensors)
            tensors += [_resource(builder, graph.tensors[state]), _tensor(builder, value, buffer_of[value.name])]
            ops.append(_var_handle(builder, state, handle, codes))
            ops.append(_operator(builder, graph, op, codes["assign_variable", 1], ([handle, handle + 1], [])))
    return _subgraph(builder, "init", tensors, ops, (_ints(builder, []), _ints(builder, [])))


def _operator(
    builder: flatbuffers.Builder, graph: Graph, op: Op, code: int, operands: tuple[list[int], list[int]], **more: int
) -> int:
    """Write an Operator (`code`: index of its OperatorCode; `operands`: tensor indices of inputs, outputs) and its options."""
    fields = {"OpcodeIndex": code, "Inputs": _ints(builder, operands[0]), "Outputs": _ints(builder, operands[1]), **more}
    name = OPS[op.kind].table
    if OPS[op.kind].numbers:
        fields["CustomOptions"] = int(builder.CreateNumpyVector(np.frombuffer(custom_options(op), np.uint8)))
    if name is not None:
        try:
            options = _table(builder, name, **{f: _field_value(builder, value) for f, value in values(graph, op).items()})
        except (struct.error, TypeError) as error:
            raise CompileError(f"has an attribute that .tflite cannot hold: {error}", op=op) from error
        fields |= {"BuiltinOptions": options, "BuiltinOptionsType": getattr(tflite.BuiltinOptions, name)}
    return _table(builder, "Operator", **fields)


def _field_value(builder: flatbuffers.Builder, value: Any) -> Any:
    """Return the value of a field; a tuple or bytes is written as vector or string, and its offset is returned."""
    if isinstance(value, tuple):
        return _ints(builder, value)
    return builder.CreateString(value) if isinstance(value, bytes) else value


def _table(builder: flatbuffers.Builder, name: str, /, **fields: Any) -> int:
    """Write a table of the schema, such as "Tensor"; strings, vectors and inner tables in `fields` are offsets."""
    getattr(tflite, f"{name}Start")(builder)
    for field, value in fields.items():
        getattr(tflite, f"{name}Add{field}")(builder, value)
    return int(getattr(tflite, f"{name}End")(builder))


def _ints(builder: flatbuffers.Builder, values: Sequence[int]) -> int:
    return int(builder.CreateNumpyVector(np.asarray(values, np.int32)))


def _offsets(builder: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _buffers(builder: flatbuffers.Builder, constants: Iterable[Tensor], contents: Iterable[bytes]) -> int:
    """Write the vector of buffers: an empty one, those of constants, and those of metadata entries."""
    data = [*(_buffer(builder, t) for t in constants), *(_bytes_buffer(builder, content) for content in contents)]
    return _offsets(builder, [_table(builder, "Buffer"), *data])


def _buffer(builder: flatbuffers.Builder, tensor: Tensor) -> int:
    assert tensor.data is not None
    values = packed(tensor.data.ravel()) if tensor.dtype == "int4" else tensor.data
    return _bytes_buffer(builder, np.ascontiguousarray(values).tobytes())


def _bytes_buffer(builder: flatbuffers.Builder, payload: bytes) -> int:
    """Write a Buffer table whose bytes are aligned to BUFFER_ALIGN, and return its offset."""
    builder.StartVector(1, len(payload), BUFFER_ALIGN)
    builder.head -= len(payload)  # StartVector reserved the bytes; the builder fills from the back
    builder.Bytes[builder.head : builder.head + len(payload)] = payload
    return _table(builder, "Buffer", Data=builder.EndVector())


def _tensor(builder: flatbuffers.Builder, tensor: Tensor, buffer: int) -> int:
    fields: dict[str, Any] = {"Shape": _ints(builder, tensor.shape), "Name": builder.CreateString(tensor.name)}
    if tensor.quant is not None:
        fields["Quantization"] = _quantization(builder, tensor.quant, tensor)
    if tensor.role == "state":
        fields["IsVariable"] = True
    return _table(builder, "Tensor", Type=TYPES[tensor.dtype], Buffer=buffer, HasRank=True, **fields)


def _quantization(builder: flatbuffers.Builder, quant: Quant, tensor: Tensor) -> int:
    return _table(
        builder,
        "QuantizationParameters",
        Scale=builder.CreateNumpyVector(np.array([float32(s, tensor=tensor) for s in quant.scale], np.float32)),
        ZeroPoint=builder.CreateNumpyVector(np.array(quant.zero_point, np.int64)),
        QuantizedDimension=quant.axis or 0,
    )


def _op(builder: flatbuffers.Builder, graph: Graph, op: Op, indices: Mapping[str, int], codes: Codes) -> int:
    state = [name for name in op.outputs if graph.tensors[name].role == "state"]
    read = (*state, *op.inputs) if op.kind == "assign_variable" else op.inputs
    inputs = [-1 if name is None else indices[name] for name in read]
    outputs = [indices[name] for name in op.outputs if name not in state]
    if op.attrs.get("unsigned"):
        raise CompileError("was uint8 and cannot be written as int8 without changing its results", op=op)
    intermediates = [indices[tensor.name] for tensor in _intermediates(graph, op)]
    more = {"Intermediates": _ints(builder, intermediates)} if intermediates else {}
    return _operator(builder, graph, op, codes[op.kind, _version(graph, op)], (inputs, outputs), **more)


def _operator_code(builder: flatbuffers.Builder, kind: str, version: int) -> int:
    if OPS[kind].numbers is not None:
        custom = tflite.BuiltinOperator.CUSTOM
        name = builder.CreateString(OPS[kind].custom or CUSTOM + kind)
        return _table(builder, "OperatorCode", DeprecatedBuiltinCode=custom, CustomCode=name, Version=1, BuiltinCode=custom)
    code, most = getattr(tflite.BuiltinOperator, kind.upper()), tflite.BuiltinOperator.PLACEHOLDER_FOR_GREATER_OP_CODES
    return _table(builder, "OperatorCode", DeprecatedBuiltinCode=min(code, most), Version=version, BuiltinCode=code)


def _version(graph: Graph, op: Op) -> int:
    """Return the lowest op version that supports the data type of `op` and the features that it uses (FEATURES)."""
    if op.kind not in OPS:
        raise CompileError("cannot be written to .tflite", f"supported kinds: {', '.join(sorted(OPS))}", op=op)
    x = graph.optional_input(op, spec_of(op).data)
    if x is None:
        raise CompileError("has no first input", op=op)
    int8, int16 = OPS[op.kind].versions
    needed = (number for number, is_used in FEATURES.get(op.kind, ()) if is_used(graph, op, x))
    return max({"int8": int8, "int16": int16}.get(x.dtype, 1), *needed, 1)


def _is_large(rank: int) -> Feature:
    return lambda graph, op, x: len(x.shape) > rank


def _has(*attrs: str) -> Feature:
    """Return a Feature, a test of an op: whether at least one of the attributes `attrs` is set."""
    return lambda graph, op, x: any(op.attrs.get(attr) for attr in attrs)


NOT_AN_IMAGE = ((3, lambda graph, op, x: len(x.shape) != 4),)
RESIZED = ((3, _has("align_corners", "half_pixel_centers")),)
# op kind -> (the op version that a feature needs, whether an op uses the feature)
FEATURES: Mapping[str, Sequence[tuple[int, Feature]]] = {
    "batch_to_space_nd": NOT_AN_IMAGE,
    "broadcast_to": ((2, lambda graph, op, x: True),),
    "conv_2d": ((6, lambda graph, op, x: x.shape[-1] != graph.input(op, 1).shape[-1]),),
    "depthwise_conv_2d": ((2, lambda graph, op, x: op.attrs.get("dilation") != (1, 1)),),
    "fully_connected": ((6, lambda graph, op, x: len(op.inputs) == 2), (5, _has("keep_num_dims"))),
    "gather": ((5, _has("batch_dims")),),
    "mul": ((3, lambda graph, op, x: _product_scale(graph, op) >= 1),),
    "pad": ((4, _is_large(4)),),
    "quantize": ((2, lambda graph, op, x: graph.output(op).dtype == "int16"),),
    "resize_bilinear": RESIZED,
    "resize_nearest_neighbor": RESIZED,
    "slice": ((5, _is_large(4)),),
    "space_to_batch_nd": NOT_AN_IMAGE,
    "strided_slice": ((8, _has("offset")), (6, _has("ellipsis_mask", "new_axis_mask"))),
    "transpose": ((4, _is_large(4)), (6, _is_large(5))),
    "transpose_conv": ((4, lambda graph, op, x: op.attrs.get("activation") != "none"),),
}


def _product_scale(graph: Graph, op: Op) -> float:
    """Return scale_a * scale_b / scale_out, by which a quantised mul rescales its integer product, or 0 for a float mul."""
    a, b, out = graph.input(op, 0), graph.input(op, 1), graph.output(op)
    return a.scale * b.scale / out.scale if a.quant and b.quant and out.quant else 0.0


def reordered(file: bytes, order: Sequence[int]) -> bytes:
    """Return a copy of a .tflite file in which ops of the first subgraph run in a new order of the positions in `from_tflite`.

    Ops that initialise variables are not in `order` and stay first. Only the vector of references changes.
    """
    model = tflite.Model.GetRootAs(file, 0)
    metadata_of(file)
    subgraph = model.Subgraphs(0)
    count = subgraph.OperatorsLength()
    setup = [index for index in range(count) if kind_of(model, subgraph.Operators(index)) in WITHOUT_VALUE]
    rest = [index for index in range(count) if index not in setup]
    if sorted(order) != list(range(len(rest))):
        raise ValueError(f"the order {list(order)} is not a permutation of {len(rest)} ops")
    places = [subgraph.Operators(index)._tab.Pos for index in (*setup, *(rest[index] for index in order))]
    # the vector holds its length, then for each op the distance from the reference to the op
    vector = subgraph._tab.Vector(subgraph._tab.Offset(OPERATORS_SLOT))
    references = [place - (vector + 4 * index) for index, place in enumerate(places)]
    if min(references, default=1) <= 0:
        raise CompileError("the file stores its ops before the list of ops", "convert it again with TensorFlow's converter")
    return file[:vector] + struct.pack(f"<{count}I", *references) + file[vector + 4 * count :]


def rewritten(file: bytes, graph: Graph, places: Mapping[str, int] | None) -> bytes:
    """Return a graph with the inputs and outputs of a .tflite file as a file, with the rest of that file's contents."""
    new = to_tflite(graph, metadata=metadata_of(file), signature=_signatures_of(file, graph), places=places)
    return new + _appended(file)


@contextmanager
def _readable() -> Iterator[None]:
    """Raise CompileError for an offset or a length that points outside of a file."""
    try:
        yield
    except (struct.error, IndexError, TypeError, ValueError, OverflowError) as error:
        raise CompileError("the file's metadata or signatures are damaged", "export it again") from error


@_readable()
def metadata_of(file: bytes) -> dict[str, bytes]:
    """Return the contents of the metadata entries of a .tflite file; raise CompileError if they fix the order of the ops."""
    model = tflite.Model.GetRootAs(file, 0)
    found = {}
    for index in range(min(model.MetadataLength(), MOST_ENTRIES)):
        entry = model.Metadata(index)
        buffer = model.Buffers(entry.Buffer()) if entry.Buffer() < model.BuffersLength() else None
        content = buffer.DataAsNumpy().tobytes() if buffer is not None and buffer.DataLength() else b""
        found[(entry.Name() or b"").decode(errors="replace")] = content
    if "model_control_dependencies" in found:
        raise CompileError("the file fixes the order of its ops (model_control_dependencies)", "export it without")
    return found


@_readable()
def _signatures_of(file: bytes, graph: Graph) -> list[Signature]:
    """Return the signatures of a .tflite file for a graph with the same inputs and outputs."""
    model = tflite.Model.GetRootAs(file, 0)
    edges = [dict(zip(model.Subgraphs(0).InputsAsNumpy().tolist(), graph.inputs, strict=True))]
    edges.append(dict(zip(model.Subgraphs(0).OutputsAsNumpy().tolist(), graph.outputs, strict=True)))
    found = []
    for each in (model.SignatureDefs(index) for index in range(min(model.SignatureDefsLength(), MOST_ENTRIES))):
        sides = ((each.Inputs, each.InputsLength()), (each.Outputs, each.OutputsLength()))
        pairs = [
            [
                ((entry.Name() or b"").decode(errors="replace"), edge[entry.TensorIndex()])
                for entry in (read(index) for index in range(min(count, MOST_ENTRIES)))
                if entry.TensorIndex() in edge
            ]
            for (read, count), edge in zip(sides, edges, strict=True)
        ]
        if each.SubgraphIndex() == 0:
            found.append(Signature((each.SignatureKey() or b"").decode(errors="replace"), *pairs))
    return found


def _appended(file: bytes) -> bytes:
    """Return the zip archive that TFLite's metadata appends to a file, such as the names of classes, or b""."""
    try:
        with ZipFile(BytesIO(file)) as archive:
            return file[min(entry.header_offset for entry in archive.infolist()) :]
    except (BadZipFile, OSError, ValueError, NotImplementedError):
        return b""
