"""A Graph as a .tflite file that LiteRT and Netron open; and a file with its ops in another order.

In: a Graph. Out: bytes, the same for equal graphs. `tflite_schema.OPS` says per op kind how its attributes are written.
Source: TFLite schema.fbs; op versions as in TFLite's op_version.cc.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import flatbuffers
import numpy as np
import tflite

from ..ir import CompileError, Graph, Op, Quant, Tensor, packed, verify
from ..ops import SPECS
from ..tflite_schema import IDENTIFIER, NO_OPERANDS, OPS, SCHEMA_VERSION, TYPES, WITHOUT_VALUE, float32, kind_of, values

BUFFER_ALIGN = 16
Feature = Callable[[Graph, Op, Tensor], bool]  # of an op and its data: whether it has it
OPERATORS_SLOT = 10  # of SubGraph.operators in the table's list of fields: 4 + 2 * its position in the schema


def to_tflite(graph: Graph, *, metadata: Mapping[str, bytes] | None = None, signature: bool = False) -> bytes:
    """Return the file's bytes; CompileError when the graph holds something that the format cannot.

    metadata: entries of the file by name. signature: say which inputs and outputs `serving_default` has, by their names.
    """
    verify(graph)
    for tensor in graph.tensors.values():
        if tensor.dtype == "int4" and tensor.data is None:
            raise CompileError("is an int4 map, which TFLite has no ops for", "only constants may be int4", tensor=tensor)
    builder = flatbuffers.Builder(1024)
    variables = _variables(graph)
    initial = {op.inputs[0] for op in graph.init}
    main = [t for t in graph.tensors.values() if t.name not in initial]
    main += [tensor for op in graph.ops for tensor in _intermediates(graph, op)]
    indices = {t.name: index for index, t in enumerate(main)}
    constants = [t for t in graph.tensors.values() if t.data is not None]
    buffer_of = {t.name: index for index, t in enumerate(constants, start=1)}
    setup = [("call_once", 1), ("var_handle", 1), ("assign_variable", 1)] if variables else []
    wanted = dict.fromkeys((*setup, *((op.kind, _version(graph, op)) for op in graph.ops)))
    codes = {code: index for index, code in enumerate(wanted)}

    tensors = [_resource(builder, t) if t.name in variables else _tensor(builder, t, buffer_of.get(t.name, 0)) for t in main]
    call = Op("init", "call_once", (), (), {"subgraph": 1})
    ops = [_operator(builder, NO_OPERANDS, call, codes["call_once", 1], ([], []))] if variables else []
    ops += [_var_handle(builder, name, indices[name], codes) for name in variables]
    ops += [_op(builder, graph, op, indices, codes) for op in graph.ops]
    inputs, outputs = ([indices[name] for name in names] for names in (graph.inputs, graph.outputs))
    subgraphs = [_subgraph(builder, graph.name, tensors, ops, (_ints(builder, inputs), _ints(builder, outputs)))]
    if variables:
        subgraphs.append(_initialiser(builder, graph, variables, buffer_of, codes))
    entries = metadata or {}
    first = len(constants) + 1  # the buffer of the first entry
    extra = {"Metadata": _metadata(builder, list(entries), first)} if entries else {}
    extra |= {"SignatureDefs": _signature(builder, graph, indices)} if signature else {}
    model = _table(
        builder,
        "Model",
        Version=SCHEMA_VERSION,
        OperatorCodes=_offsets(builder, [_operator_code(builder, kind, version) for kind, version in codes]),
        Subgraphs=_offsets(builder, subgraphs),
        Description=builder.CreateString("tinyweave"),
        Buffers=_offsets(
            builder,
            [
                _table(builder, "Buffer"),
                *(_buffer(builder, t) for t in constants),
                *(_bytes_buffer(builder, content) for content in entries.values()),
            ],
        ),
        **extra,
    )
    builder.Finish(model, file_identifier=IDENTIFIER)
    return bytes(builder.Output())


def _subgraph(builder: flatbuffers.Builder, name: str, tensors: list[int], ops: list[int], edges: tuple[int, int]) -> int:
    return _table(
        builder,
        "SubGraph",
        Name=builder.CreateString(name),
        Tensors=_offsets(builder, tensors),
        Inputs=edges[0],
        Outputs=edges[1],
        Operators=_offsets(builder, ops),
    )


def _metadata(builder: flatbuffers.Builder, names: Sequence[str], first: int) -> int:
    """Write the entries of the file's metadata, whose contents lie in buffers from `first` on."""
    return _offsets(
        builder,
        [_table(builder, "Metadata", Name=builder.CreateString(name), Buffer=place) for place, name in enumerate(names, first)],
    )


def _signature(builder: flatbuffers.Builder, graph: Graph, indices: Mapping[str, int]) -> int:
    inputs, outputs = (
        _offsets(
            builder,
            [_table(builder, "TensorMap", Name=builder.CreateString(name), TensorIndex=indices[name]) for name in names],
        )
        for names in (graph.inputs, graph.outputs)
    )
    key = builder.CreateString("serving_default")
    return _offsets(builder, [_table(builder, "SignatureDef", Inputs=inputs, Outputs=outputs, SignatureKey=key)])


def _variables(graph: Graph) -> list[str]:
    """Return the state that is written as resource variables; the rest, which ops use directly, as variable tensors."""
    named = [op for op in graph.ops if op.kind in ("read_variable", "assign_variable")]
    touched = dict.fromkeys(name for op in named for name in (*op.inputs, *op.outputs) if name is not None)
    names = [name for name in touched if graph.tensors[name].role == "state"]
    for op in graph.init:
        (state,), value = graph.outputs_of(op), graph.input(op).data
        zero = state.zero_point if state.dtype == "int8" and state.quant is not None else 0
        if state.name not in names and not (value is not None and (value == zero).all()):
            raise CompileError("starts as something else than 0", ".tflite has no other first value for it", tensor=state)
    return names


def _intermediates(graph: Graph, op: Op) -> list[Tensor]:
    """Return the tensors that TFLite's integer LSTM has for scales inside of it: only the last counts, its result's."""
    if op.kind != "unidirectional_sequence_lstm" or graph.input(op).dtype == "float32":
        return []
    unused = [Tensor(f"{op.name}.intermediate_{i}", (0,), "float32") for i in range(4)]
    return [*unused, replace(graph.output(op), name=f"{op.name}.hidden", shape=(0,))]


def _resource(builder: flatbuffers.Builder, tensor: Tensor) -> int:
    return _table(
        builder,
        "Tensor",
        Type=tflite.TensorType.RESOURCE,
        Name=builder.CreateString(tensor.name),
        Shape=_ints(builder, []),
        HasRank=True,
    )


def _var_handle(builder: flatbuffers.Builder, name: str, index: int, codes: Mapping[tuple[str, int], int]) -> int:
    op = Op(name, "var_handle", (), (), {"container": b"", "shared_name": name.encode()})
    return _operator(builder, NO_OPERANDS, op, codes["var_handle", 1], ([], [index]))


def _initialiser(
    builder: flatbuffers.Builder,
    graph: Graph,
    variables: list[str],
    buffer_of: Mapping[str, int],
    codes: Mapping[tuple[str, int], int],
) -> int:
    """Return the subgraph that assigns the first values: tensors are each variable's handle and its value."""
    tensors, ops = [], []
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
    """Write an op on (inputs, outputs) with its table of options; `more` are fields of the schema's Operator."""
    fields = {"OpcodeIndex": code, "Inputs": _ints(builder, operands[0]), "Outputs": _ints(builder, operands[1]), **more}
    name = OPS[op.kind].table
    if name is not None:
        try:
            options = _table(builder, name, **{f: _placed(builder, value) for f, value in values(graph, op).items()})
        except (struct.error, TypeError) as error:
            raise CompileError(f"has an attribute that .tflite cannot hold: {error}", op=op) from error
        fields |= {"BuiltinOptions": options, "BuiltinOptionsType": getattr(tflite.BuiltinOptions, name)}
    return _table(builder, "Operator", **fields)


def _placed(builder: flatbuffers.Builder, value: Any) -> Any:
    """Return a value as its field takes it: vectors and strings are written first, the field has their place."""
    if isinstance(value, tuple):
        return _ints(builder, value)
    return builder.CreateString(value) if isinstance(value, bytes) else value


def _table(builder: flatbuffers.Builder, name: str, /, **fields: Any) -> int:
    """Write one schema table; strings, vectors and inner tables are given as offsets."""
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


def _buffer(builder: flatbuffers.Builder, tensor: Tensor) -> int:
    assert tensor.data is not None
    values = packed(tensor.data.ravel()) if tensor.dtype == "int4" else tensor.data
    return _bytes_buffer(builder, np.ascontiguousarray(values).tobytes())


def _bytes_buffer(builder: flatbuffers.Builder, payload: bytes) -> int:
    builder.StartVector(1, len(payload), BUFFER_ALIGN)
    builder.head -= len(payload)  # StartVector made the room; the builder fills from the back
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


def _op(
    builder: flatbuffers.Builder, graph: Graph, op: Op, indices: Mapping[str, int], codes: Mapping[tuple[str, int], int]
) -> int:
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
    code, most = getattr(tflite.BuiltinOperator, kind.upper()), tflite.BuiltinOperator.PLACEHOLDER_FOR_GREATER_OP_CODES
    return _table(builder, "OperatorCode", DeprecatedBuiltinCode=min(code, most), Version=version, BuiltinCode=code)


def _version(graph: Graph, op: Op) -> int:
    """Return the least version of the op that has the features `op` uses."""
    if op.kind not in SPECS:
        raise CompileError("cannot be written to .tflite", f"kinds that can: {', '.join(sorted(SPECS))}", op=op)
    x = graph.optional_input(op, SPECS[op.kind].data)
    if x is None:
        raise CompileError("has no first input", op=op)
    int8, int16 = OPS[op.kind].versions
    needed = (number for number, is_used in FEATURES.get(op.kind, ()) if is_used(graph, op, x))
    return max({"int8": int8, "int16": int16}.get(x.dtype, 1), *needed, 1)


def _is_no_map(graph: Graph, op: Op, x: Tensor) -> bool:
    return len(x.shape) != 4


def _is_large(rank: int) -> Feature:
    return lambda graph, op, x: len(x.shape) > rank


def _says(*attrs: str) -> Feature:
    """Return whether an op has one of these attributes."""
    return lambda graph, op, x: any(op.attrs.get(attr) for attr in attrs)


RESIZED = ((3, _says("align_corners", "half_pixel_centers")),)
# per kind: the versions that features need
FEATURES: Mapping[str, Sequence[tuple[int, Feature]]] = {
    "batch_to_space_nd": ((3, _is_no_map),),
    "broadcast_to": ((2, lambda graph, op, x: True),),
    "conv_2d": ((6, lambda graph, op, x: x.shape[-1] != graph.input(op, 1).shape[-1]),),
    "depthwise_conv_2d": ((2, lambda graph, op, x: op.attrs.get("dilation") != (1, 1)),),
    "fully_connected": ((6, lambda graph, op, x: len(op.inputs) == 2), (5, _says("keep_num_dims"))),
    "gather": ((5, _says("batch_dims")),),
    "mul": ((3, lambda graph, op, x: _product_scale(graph, op) >= 1),),
    "pad": ((4, _is_large(4)),),
    "quantize": ((2, lambda graph, op, x: graph.output(op).dtype == "int16"),),
    "resize_bilinear": RESIZED,
    "resize_nearest_neighbor": RESIZED,
    "slice": ((5, _is_large(4)),),
    "space_to_batch_nd": ((3, _is_no_map),),
    "strided_slice": ((8, _says("offset")), (6, _says("ellipsis_mask", "new_axis_mask"))),
    "transpose": ((4, _is_large(4)), (6, _is_large(5))),
    "transpose_conv": ((4, lambda graph, op, x: op.attrs.get("activation") != "none"),),
}


def _product_scale(graph: Graph, op: Op) -> float:
    a, b, out = graph.input(op, 0), graph.input(op, 1), graph.output(op)
    return a.scale * b.scale / out.scale if a.quant and b.quant and out.quant else 0.0


def reordered(file: bytes, order: Sequence[int]) -> bytes:
    """Return the file with the ops of its first subgraph in `order`, which counts them as a Graph does; all else stays.

    Only the vector of references to the ops changes. Ops that set variables up are in no Graph and come first.
    """
    model = tflite.Model.GetRootAs(file, 0)
    if any(model.Metadata(i).Name() == b"model_control_dependencies" for i in range(model.MetadataLength())):
        raise CompileError("the file fixes the order of its ops (model_control_dependencies)", "export it without")
    subgraph = model.Subgraphs(0)
    count = subgraph.OperatorsLength()
    setup = [index for index in range(count) if kind_of(model, subgraph.Operators(index)) in WITHOUT_VALUE]
    rest = [index for index in range(count) if index not in setup]
    if sorted(order) != list(range(len(rest))):
        raise ValueError(f"the order {list(order)} does not run each of {len(rest)} ops once")
    places = [subgraph.Operators(index)._tab.Pos for index in (*setup, *(rest[index] for index in order))]
    # the field's slot in the table leads to the vector: its length, then per op how far behind its reference the op lies
    vector = subgraph._tab.Vector(subgraph._tab.Offset(OPERATORS_SLOT))
    references = [place - (vector + 4 * index) for index, place in enumerate(places)]
    if min(references, default=1) <= 0:
        raise CompileError("its ops lie before the list of them", "write the file anew with TensorFlow's converter")
    return file[:vector] + struct.pack(f"<{count}I", *references) + file[vector + 4 * count :]
