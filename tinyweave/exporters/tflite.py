"""A Graph as a .tflite file that LiteRT and Netron open; and a file with its ops in another order.

In: a Graph. Out: bytes, the same for equal graphs. One row of OPTIONS per op kind writes its attributes as the schema's
option table; explicit padding is written as SAME or VALID, the only two that the format has.
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
from ..ops.window import Size, same_padding

SCHEMA_VERSION = 3
IDENTIFIER = b"TFL3"
BUFFER_ALIGN = 16
SETUP = (tflite.BuiltinOperator.VAR_HANDLE, tflite.BuiltinOperator.CALL_ONCE)
OPERATORS_SLOT = 10  # of SubGraph.operators in the table's list of fields: 4 + 2 * its position in the schema
TYPES = {
    "float32": tflite.TensorType.FLOAT32,
    "int4": tflite.TensorType.INT4,
    "int32": tflite.TensorType.INT32,
    "uint8": tflite.TensorType.UINT8,
    "int64": tflite.TensorType.INT64,
    "bool": tflite.TensorType.BOOL,
    "int16": tflite.TensorType.INT16,
    "int8": tflite.TensorType.INT8,
}
ACTIVATIONS = {
    "none": tflite.ActivationFunctionType.NONE,
    "relu": tflite.ActivationFunctionType.RELU,
    "relu_n1_to_1": tflite.ActivationFunctionType.RELU_N1_TO_1,
    "relu6": tflite.ActivationFunctionType.RELU6,
}
MIRROR_MODES = {"reflect": tflite.MirrorPadMode.REFLECT, "symmetric": tflite.MirrorPadMode.SYMMETRIC}
Fields = dict[str, Any]  # schema field -> value; a tuple is written as a vector of int32


def to_tflite(graph: Graph) -> bytes:
    """The file's bytes; CompileError when the graph holds something that the format cannot."""
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
    ops = [_call_once(builder, codes)] if variables else []
    ops += [_var_handle(builder, name, indices[name], codes) for name in variables]
    ops += [_op(builder, graph, op, indices, codes) for op in graph.ops]
    inputs, outputs = ([indices[name] for name in names] for names in (graph.inputs, graph.outputs))
    edges = _ints(builder, inputs), _ints(builder, outputs)
    subgraphs = [_subgraph(builder, graph.name, tensors, ops, edges)]
    if variables:
        subgraphs.append(_initialiser(builder, graph, variables, buffer_of, codes))
    model = _table(
        builder,
        "Model",
        Version=SCHEMA_VERSION,
        OperatorCodes=_offsets(builder, [_operator_code(builder, kind, version) for kind, version in codes]),
        Subgraphs=_offsets(builder, subgraphs),
        Description=builder.CreateString("tinyweave"),
        Buffers=_offsets(builder, [_table(builder, "Buffer"), *(_buffer(builder, t) for t in constants)]),
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


def _variables(graph: Graph) -> list[str]:
    """The state that is written as resource variables; the rest, which ops use directly, as variable tensors."""
    found: list[str] = []
    for op in graph.ops:
        for tensor in (*graph.inputs_of(op), *graph.outputs_of(op)):
            if tensor is not None and tensor.role == "state" and op.kind in ("read_variable", "assign_variable"):
                found.append(tensor.name)
    for op in graph.init:
        (state,), value = graph.outputs_of(op), graph.input(op).data
        zero = state.zero_point if state.dtype == "int8" and state.quant is not None else 0
        if state.name not in found and not (value is not None and (value == zero).all()):
            raise CompileError("starts as something else than 0", ".tflite has no other first value for it", tensor=state)
    return list(dict.fromkeys(found))


def _intermediates(graph: Graph, op: Op) -> list[Tensor]:
    """The tensors that TFLite's LSTM has for scales inside of it: of a plain one only the last counts, its result's."""
    if op.kind != "unidirectional_sequence_lstm":
        return []
    unused = [Tensor(f"{op.name}.intermediate_{i}", (0,), "float32") for i in range(4)]
    return [*unused, replace(graph.output(op), name=f"{op.name}.hidden", shape=(0,))]


def _resource(builder: flatbuffers.Builder, tensor: Tensor) -> int:
    name = builder.CreateString(tensor.name)
    return _table(builder, "Tensor", Type=tflite.TensorType.RESOURCE, Name=name, Shape=_ints(builder, []), HasRank=True)


def _var_handle(builder: flatbuffers.Builder, name: str, index: int, codes: Mapping[tuple[str, int], int]) -> int:
    options = _table(builder, "VarHandleOptions", SharedName=builder.CreateString(name), Container=builder.CreateString(""))
    return _operator(builder, codes["var_handle", 1], [], [index], ("VarHandleOptions", options))


def _call_once(builder: flatbuffers.Builder, codes: Mapping[tuple[str, int], int]) -> int:
    options = _table(builder, "CallOnceOptions", InitSubgraphIndex=1)
    return _operator(builder, codes["call_once", 1], [], [], ("CallOnceOptions", options))


def _initialiser(
    builder: flatbuffers.Builder,
    graph: Graph,
    variables: list[str],
    buffer_of: Mapping[str, int],
    codes: Mapping[tuple[str, int], int],
) -> int:
    """The subgraph that assigns the first values: tensors are each variable's handle and its value."""
    tensors, ops = [], []
    for op in graph.init:
        (state,), value = op.outputs, graph.input(op)
        if state in variables:
            handle = len(tensors)
            tensors += [_resource(builder, graph.tensors[state]), _tensor(builder, value, buffer_of[value.name])]
            options = _table(builder, "AssignVariableOptions")
            ops.append(_var_handle(builder, state, handle, codes))
            assign = codes["assign_variable", 1]
            ops.append(_operator(builder, assign, [handle, handle + 1], [], ("AssignVariableOptions", options)))
    return _subgraph(builder, "init", tensors, ops, (_ints(builder, []), _ints(builder, [])))


Options = tuple[str, int]  # the schema's name of a table of options, and the table


def _operator(
    builder: flatbuffers.Builder,
    code: int,
    inputs: list[int],
    outputs: list[int],
    options: Options | None,
    *,
    intermediates: Sequence[int] = (),
) -> int:
    fields: Fields = {"OpcodeIndex": code, "Inputs": _ints(builder, inputs), "Outputs": _ints(builder, outputs)}
    if options is not None:
        fields |= {"BuiltinOptions": options[1], "BuiltinOptionsType": getattr(tflite.BuiltinOptions, options[0])}
    if intermediates:
        fields["Intermediates"] = _ints(builder, intermediates)
    return _table(builder, "Operator", **fields)


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
    payload = np.ascontiguousarray(values).tobytes()
    builder.StartVector(1, len(payload), BUFFER_ALIGN)
    builder.head -= len(payload)  # StartVector made the room; the builder fills from the back
    builder.Bytes[builder.head : builder.head + len(payload)] = payload
    return _table(builder, "Buffer", Data=builder.EndVector())


def _tensor(builder: flatbuffers.Builder, tensor: Tensor, buffer: int) -> int:
    fields: Fields = {"Shape": _ints(builder, tensor.shape), "Name": builder.CreateString(tensor.name)}
    if tensor.quant is not None:
        fields["Quantization"] = _quantization(builder, tensor.quant, tensor)
    if tensor.role == "state":
        fields["IsVariable"] = True
    return _table(builder, "Tensor", Type=TYPES[tensor.dtype], Buffer=buffer, HasRank=True, **fields)


def _quantization(builder: flatbuffers.Builder, quant: Quant, tensor: Tensor) -> int:
    scale = builder.CreateNumpyVector(np.array([_float32(s, tensor=tensor) for s in quant.scale], np.float32))
    zero_point = builder.CreateNumpyVector(np.array(quant.zero_point, np.int64))
    return _table(builder, "QuantizationParameters", Scale=scale, ZeroPoint=zero_point, QuantizedDimension=quant.axis or 0)


def _float32(value: float, **where: Any) -> float:
    """`value`, which the file must be able to hold exactly: a rounded scale would change results silently."""
    if float(np.float32(value)) != value:
        raise CompileError(f"{value!r} is not a float32 number", "round it first: float(numpy.float32(value))", **where)
    return value


def _op(
    builder: flatbuffers.Builder, graph: Graph, op: Op, indices: Mapping[str, int], codes: Mapping[tuple[str, int], int]
) -> int:
    state = [name for name in op.outputs if graph.tensors[name].role == "state"]
    read = (*state, *op.inputs) if op.kind == "assign_variable" else op.inputs
    inputs = [-1 if name is None else indices[name] for name in read]
    outputs = [indices[name] for name in op.outputs if name not in state]
    if op.attrs.get("unsigned"):
        raise CompileError("was uint8 and cannot be written as int8 without changing its results", op=op)
    code = codes[op.kind, _version(graph, op)]
    name, write = OPTIONS[op.kind]
    if name is None:
        return _operator(builder, code, inputs, outputs, None)
    try:
        options = write(graph, op)
    except KeyError as error:
        raise CompileError(f"lacks the attribute {error}", op=op) from error
    written = {f: _ints(builder, v) if isinstance(v, tuple) else v for f, v in options.items()}
    try:
        table = _table(builder, name, **written)
    except (struct.error, TypeError) as error:
        raise CompileError(f"has an attribute that .tflite cannot hold: {error}", op=op) from error
    intermediates = [indices[tensor.name] for tensor in _intermediates(graph, op)]
    return _operator(builder, code, inputs, outputs, (name, table), intermediates=intermediates)


def _operator_code(builder: flatbuffers.Builder, kind: str, version: int) -> int:
    code = getattr(tflite.BuiltinOperator, kind.upper())
    old = min(code, tflite.BuiltinOperator.PLACEHOLDER_FOR_GREATER_OP_CODES)
    return _table(builder, "OperatorCode", DeprecatedBuiltinCode=old, Version=version, BuiltinCode=code)


def _activation(graph: Graph, op: Op) -> Fields:
    activation = op.attrs["activation"]
    if activation not in ACTIVATIONS:
        raise CompileError(f"unknown fused activation {activation}", f"one of: {', '.join(ACTIVATIONS)}", op=op)
    return {"FusedActivationFunction": ACTIVATIONS[activation]}


def _padding(graph: Graph, op: Op, kernel: Size, size: tuple[int, ...] = ()) -> int:
    """SAME or VALID, whichever means the explicit padding of `op` on a map of `size`, the input's unless given."""
    explicit = op.attrs["padding"]
    if explicit == ((0, 0), (0, 0)):
        return int(tflite.Padding.VALID)
    size, stride, dilation = size or graph.input(op).shape[1:3], op.attrs["stride"], op.attrs.get("dilation", (1, 1))
    if len(size) == 2 and explicit == tuple(same_padding(size[a], kernel[a], stride[a], dilation[a]) for a in (0, 1)):
        return int(tflite.Padding.SAME)
    raise CompileError(
        f"its padding {explicit} is neither SAME nor VALID, and .tflite has no other", "keep it as a pad op of its own", op=op
    )


def _conv(graph: Graph, op: Op) -> Fields:
    (stride_h, stride_w), (dilation_h, dilation_w) = op.attrs["stride"], op.attrs["dilation"]
    weights = graph.input(op, 1).shape
    return {
        "Padding": _padding(graph, op, (weights[1], weights[2])),
        "StrideH": stride_h,
        "StrideW": stride_w,
        "DilationHFactor": dilation_h,
        "DilationWFactor": dilation_w,
        **_activation(graph, op),
    }


def _depthwise_conv(graph: Graph, op: Op) -> Fields:
    return {**_conv(graph, op), "DepthMultiplier": graph.output(op).shape[-1] // graph.input(op).shape[-1]}


def _transpose_conv(graph: Graph, op: Op) -> Fields:
    (stride_h, stride_w), weights = op.attrs["stride"], graph.input(op, 1).shape
    padding = _padding(graph, op, (weights[1], weights[2]), graph.output(op).shape[1:3])
    return {"Padding": padding, "StrideH": stride_h, "StrideW": stride_w, **_activation(graph, op)}


def _pool(graph: Graph, op: Op) -> Fields:
    (stride_h, stride_w), (kernel_h, kernel_w) = op.attrs["stride"], op.attrs["kernel"]
    return {
        "Padding": _padding(graph, op, (kernel_h, kernel_w)),
        "StrideH": stride_h,
        "StrideW": stride_w,
        "FilterHeight": kernel_h,
        "FilterWidth": kernel_w,
        **_activation(graph, op),
    }


def _reducer(graph: Graph, op: Op) -> Fields:
    return {"KeepDims": op.attrs["keep_dims"]}


def _lstm(graph: Graph, op: Op) -> Fields:
    if op.attrs["activation"] != "tanh":
        raise CompileError("must have the activation tanh", "there is no other LSTM", op=op)
    return {
        "FusedActivationFunction": tflite.ActivationFunctionType.TANH,
        "CellClip": _float32(op.attrs["cell_clip"], op=op),
        "TimeMajor": op.attrs["time_major"],
    }


def _sum(graph: Graph, op: Op) -> Fields:
    # the int16 kernels have a second arithmetic for power-of-two scales; tinyweave means the general one
    return {**_activation(graph, op), "PotScaleInt16": False}


def _fully_connected(graph: Graph, op: Op) -> Fields:
    return {**_activation(graph, op), "KeepNumDims": op.attrs["keep_num_dims"]}


def _concatenation(graph: Graph, op: Op) -> Fields:
    return {"Axis": op.attrs["axis"], **_activation(graph, op)}


def _strided_slice(graph: Graph, op: Op) -> Fields:
    return {
        "BeginMask": op.attrs["begin_mask"],
        "EndMask": op.attrs["end_mask"],
        "EllipsisMask": op.attrs["ellipsis_mask"],
        "NewAxisMask": op.attrs["new_axis_mask"],
        "ShrinkAxisMask": op.attrs["shrink_axis_mask"],
        "Offset": op.attrs["offset"],
    }


def _reshape(graph: Graph, op: Op) -> Fields:
    return {} if op.attrs["new_shape"] is None else {"NewShape": op.attrs["new_shape"]}


def _resize(graph: Graph, op: Op) -> Fields:
    return {"AlignCorners": op.attrs["align_corners"], "HalfPixelCenters": op.attrs["half_pixel_centers"]}


def _cast(graph: Graph, op: Op) -> Fields:
    return {"InDataType": TYPES[graph.input(op).dtype], "OutDataType": TYPES[graph.output(op).dtype]}


def _nothing(graph: Graph, op: Op) -> Fields:
    return {}


# kind -> the schema's table of options and what to write into it
OPTIONS: dict[str, tuple[str | None, Callable[[Graph, Op], Fields]]] = {
    "add": ("AddOptions", _sum),
    "arg_max": ("ArgMaxOptions", lambda graph, op: {"OutputType": TYPES[graph.output(op).dtype]}),
    "assign_variable": ("AssignVariableOptions", _nothing),
    "average_pool_2d": ("Pool2DOptions", _pool),
    "batch_matmul": ("BatchMatMulOptions", lambda graph, op: {"AdjX": op.attrs["adj_x"], "AdjY": op.attrs["adj_y"]}),
    "batch_to_space_nd": ("BatchToSpaceNDOptions", _nothing),
    "broadcast_to": ("BroadcastToOptions", _nothing),
    "cast": ("CastOptions", _cast),
    "concatenation": ("ConcatenationOptions", _concatenation),
    "conv_2d": ("Conv2DOptions", _conv),
    "depth_to_space": ("DepthToSpaceOptions", lambda graph, op: {"BlockSize": op.attrs["block_size"]}),
    "depthwise_conv_2d": ("DepthwiseConv2DOptions", _depthwise_conv),
    "dequantize": ("DequantizeOptions", _nothing),
    "expand_dims": ("ExpandDimsOptions", _nothing),
    "fully_connected": ("FullyConnectedOptions", _fully_connected),
    "gather": ("GatherOptions", lambda graph, op: {"Axis": op.attrs["axis"], "BatchDims": op.attrs["batch_dims"]}),
    "gather_nd": ("GatherNdOptions", _nothing),
    "hard_swish": ("HardSwishOptions", _nothing),
    "leaky_relu": ("LeakyReluOptions", lambda graph, op: {"Alpha": _float32(op.attrs["alpha"], op=op)}),
    "log_softmax": ("LogSoftmaxOptions", _nothing),
    "logistic": (None, _nothing),
    "max_pool_2d": ("Pool2DOptions", _pool),
    "maximum": ("MaximumMinimumOptions", _nothing),
    "mean": ("ReducerOptions", _reducer),
    "minimum": ("MaximumMinimumOptions", _nothing),
    "mirror_pad": ("MirrorPadOptions", lambda graph, op: {"Mode": MIRROR_MODES[op.attrs["mode"]]}),
    "mul": ("MulOptions", _activation),
    "pack": ("PackOptions", lambda graph, op: {"ValuesCount": len(op.inputs), "Axis": op.attrs["axis"]}),
    "pad": ("PadOptions", _nothing),
    "padv2": ("PadV2Options", _nothing),
    "prelu": (None, _nothing),
    "quantize": ("QuantizeOptions", _nothing),
    "reduce_max": ("ReducerOptions", _reducer),
    "reduce_min": ("ReducerOptions", _reducer),
    "read_variable": ("ReadVariableOptions", _nothing),
    "relu": (None, _nothing),
    "relu6": (None, _nothing),
    "relu_n1_to_1": (None, _nothing),
    "reshape": ("ReshapeOptions", _reshape),
    "resize_bilinear": ("ResizeBilinearOptions", _resize),
    "resize_nearest_neighbor": ("ResizeNearestNeighborOptions", _resize),
    "shape": ("ShapeOptions", lambda graph, op: {"OutType": TYPES[graph.output(op).dtype]}),
    "slice": ("SliceOptions", _nothing),
    "softmax": ("SoftmaxOptions", lambda graph, op: {"Beta": _float32(op.attrs["beta"], op=op)}),
    "space_to_batch_nd": ("SpaceToBatchNDOptions", _nothing),
    "space_to_depth": ("SpaceToDepthOptions", lambda graph, op: {"BlockSize": op.attrs["block_size"]}),
    "split": ("SplitOptions", lambda graph, op: {"NumSplits": len(op.outputs)}),
    "split_v": ("SplitVOptions", lambda graph, op: {"NumSplits": len(op.outputs)}),
    "squeeze": ("SqueezeOptions", lambda graph, op: {"SqueezeDims": op.attrs["axes"]}),
    "strided_slice": ("StridedSliceOptions", _strided_slice),
    "sub": ("SubOptions", _sum),
    "svdf": ("SVDFOptions", lambda graph, op: {"Rank": op.attrs["rank"], **_activation(graph, op)}),
    "tanh": (None, _nothing),
    "tile": ("TileOptions", _nothing),
    "transpose": ("TransposeOptions", _nothing),
    "transpose_conv": ("TransposeConvOptions", _transpose_conv),
    "unidirectional_sequence_lstm": ("UnidirectionalSequenceLSTMOptions", _lstm),
    "unpack": ("UnpackOptions", lambda graph, op: {"Num": len(op.outputs), "Axis": op.attrs["axis"]}),
}

# kind -> op version for int8 and for int16 data; other types and kinds have version 1 unless `_version` says otherwise
VERSIONS = {
    "add": (2, 3),
    "arg_max": (2, 1),
    "average_pool_2d": (2, 3),
    "batch_matmul": (2, 3),
    "batch_to_space_nd": (2, 4),
    "broadcast_to": (2, 3),
    "concatenation": (2, 3),
    "conv_2d": (3, 4),
    "depth_to_space": (2, 1),
    "depthwise_conv_2d": (3, 5),
    "dequantize": (2, 3),
    "fully_connected": (4, 7),
    "gather": (2, 4),
    "gather_nd": (1, 3),
    "leaky_relu": (2, 2),
    "log_softmax": (2, 1),
    "logistic": (2, 3),
    "max_pool_2d": (2, 3),
    "maximum": (2, 4),
    "mean": (2, 3),
    "minimum": (2, 4),
    "mirror_pad": (2, 3),
    "mul": (2, 4),
    "pack": (2, 3),
    "pad": (2, 3),
    "padv2": (2, 3),
    "reduce_max": (2, 3),
    "reduce_min": (2, 3),
    "relu": (2, 3),
    "relu6": (2, 3),
    "relu_n1_to_1": (1, 2),
    "resize_bilinear": (2, 4),
    "resize_nearest_neighbor": (2, 4),
    "slice": (2, 4),
    "softmax": (2, 3),
    "space_to_batch_nd": (2, 4),
    "space_to_depth": (2, 1),
    "split": (2, 4),
    "split_v": (2, 2),
    "strided_slice": (2, 4),
    "sub": (2, 5),
    "svdf": (3, 1),
    "tanh": (2, 3),
    "tile": (3, 3),
    "transpose": (2, 5),
    "transpose_conv": (3, 3),
    "unpack": (2, 4),
}


def _version(graph: Graph, op: Op) -> int:
    """The least version of the op that has the features `op` uses."""
    if op.kind not in OPTIONS:
        raise CompileError("cannot be written to .tflite", f"kinds that can: {', '.join(sorted(OPTIONS))}", op=op)
    x = graph.optional_input(op, SPECS[op.kind].data)
    if x is None:
        raise CompileError("has no first input", op=op)
    int8, int16 = VERSIONS.get(op.kind, (1, 1))
    version = {"int8": int8, "int16": int16}.get(x.dtype, 1)
    return max(version, _feature_version(graph, op, x))


def _feature_version(graph: Graph, op: Op, x: Tensor) -> int:
    attrs, rank = op.attrs, len(x.shape)
    if op.kind == "conv_2d" and x.shape[-1] != graph.input(op, 1).shape[-1]:
        return 6
    if op.kind == "depthwise_conv_2d" and attrs.get("dilation") != (1, 1):
        return 2
    if op.kind == "fully_connected":
        return 6 if len(op.inputs) == 2 else 5 if attrs.get("keep_num_dims") else 1
    if op.kind == "broadcast_to":
        return 2
    if op.kind == "gather" and attrs.get("batch_dims"):
        return 5
    if op.kind == "transpose_conv" and attrs.get("activation") != "none":
        return 4
    if op.kind in ("resize_bilinear", "resize_nearest_neighbor") and (
        attrs.get("align_corners") or attrs.get("half_pixel_centers")
    ):
        return 3
    if op.kind in ("batch_to_space_nd", "space_to_batch_nd") and rank != 4:
        return 3
    if op.kind == "slice" and rank > 4:
        return 5
    if op.kind == "mul" and _product_scale(graph, op) >= 1:
        return 3
    if op.kind in ("pad", "transpose") and rank > 4:
        return 6 if op.kind == "transpose" and rank > 5 else 4
    if op.kind == "quantize" and graph.output(op).dtype == "int16":
        return 2
    if op.kind == "strided_slice":
        return 8 if attrs.get("offset") else 6 if attrs.get("ellipsis_mask") or attrs.get("new_axis_mask") else 1
    return 1


def _product_scale(graph: Graph, op: Op) -> float:
    a, b, out = graph.input(op, 0), graph.input(op, 1), graph.output(op)
    return a.scale * b.scale / out.scale if a.quant and b.quant and out.quant else 0.0


def reordered(file: bytes, order: Sequence[int]) -> bytes:
    """The file with the ops of its first subgraph in `order`, which counts them as a Graph does; all else stays as it is.

    Only the vector of references to the ops changes. Ops that set variables up are in no Graph and come first.
    """
    model = tflite.Model.GetRootAs(file, 0)
    metadata = [model.Metadata(index) for index in range(model.MetadataLength())]
    if any(entry.Name() == b"model_control_dependencies" for entry in metadata):
        raise CompileError("the file fixes the order of its ops (model_control_dependencies)", "export it without")
    subgraph = model.Subgraphs(0)
    count = subgraph.OperatorsLength()
    setup = [index for index in range(count) if _code(model, subgraph.Operators(index)) in SETUP]
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


def _code(model: tflite.Model, operator: tflite.Operator) -> int:
    code = model.OperatorCodes(operator.OpcodeIndex())
    return int(max(code.BuiltinCode(), code.DeprecatedBuiltinCode()))
