"""What a .tflite file says of an op, for the reader and the writer alike.

In: an op and its table of options in a file, or an op with attributes. Out: its attributes, or what to write into the table.
OPS has a row per op kind; explicit padding is SAME or VALID in the file, the only two that the format has.
Source: TFLite schema.fbs; op versions as in TFLite's op_version.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import numpy as np
import tflite
from flatbuffers.number_types import Int32Flags

from .ir import CompileError, Graph, Op, shortened
from .ops.window import Padding, Size, same_padding

SCHEMA_VERSION = 3
IDENTIFIER = b"TFL3"
MAX_RANK = 8
TYPES = {
    "float32": tflite.TensorType.FLOAT32,
    "int32": tflite.TensorType.INT32,
    "uint8": tflite.TensorType.UINT8,
    "int64": tflite.TensorType.INT64,
    "bool": tflite.TensorType.BOOL,
    "int16": tflite.TensorType.INT16,
    "int8": tflite.TensorType.INT8,
    "int4": tflite.TensorType.INT4,
}
ACTIVATIONS = {
    "none": tflite.ActivationFunctionType.NONE,
    "relu": tflite.ActivationFunctionType.RELU,
    "relu_n1_to_1": tflite.ActivationFunctionType.RELU_N1_TO_1,
    "relu6": tflite.ActivationFunctionType.RELU6,
}
MIRROR_MODES = {"reflect": tflite.MirrorPadMode.REFLECT, "symmetric": tflite.MirrorPadMode.SYMMETRIC}
WITHOUT_VALUE = ("var_handle", "call_once")  # they set variables up and are no ops of a graph
NO_OPERANDS = Graph("", {}, (), (), ())  # where they are read and written


def names_of(enum: type) -> dict[int, str]:
    """Return the names of an enum of the schema."""
    return {value: key for key, value in vars(enum).items() if isinstance(value, int)}


KINDS = {code: name.lower() for code, name in names_of(tflite.BuiltinOperator).items()}

Attrs = dict[str, Any]
Values = dict[str, Any]  # schema field -> value; a tuple is written as a vector of int32, bytes as a string


@dataclass(frozen=True)
class Field:
    """Fields of a table of options that mean something together, as attributes of an op.

    `read` sees an op that has the attributes of the fields before it; without it the field says what operands say, too.
    """

    read: Callable[[Any, Graph, Op], Attrs] | None
    write: Callable[[Graph, Op], Values]


@dataclass(frozen=True)
class Options:
    """A kind's row: its table of options, if the schema has one, and the op's version for int8 and for int16 data.

    Other types and kinds have version 1, unless the writer finds a feature that needs more.
    """

    table: str | None = None
    fields: tuple[Field, ...] = ()
    versions: tuple[int, int] = (1, 1)

    @property
    def is_read(self) -> bool:
        return any(field.read is not None for field in self.fields)


def kind_of(model: tflite.Model, operator: tflite.Operator) -> str:
    """Return an op's kind; that of a custom op says its name, too."""
    index = operator.OpcodeIndex()
    if not 0 <= index < model.OperatorCodesLength():
        raise IndexError(f"op code {index} of {model.OperatorCodesLength()}")
    code = model.OperatorCodes(index)
    # codes above 126 are only in the newer of the two fields; the package's BuiltinCode() loses it in files without the older
    field = code._tab.Offset(10)
    newer = code._tab.Get(Int32Flags, code._tab.Pos + field) if field else 0
    number = max(newer, code.DeprecatedBuiltinCode())
    if number == tflite.BuiltinOperator.CUSTOM:
        return f"custom {shortened((code.CustomCode() or b'').decode(errors='replace'), 60)}"
    return KINDS.get(number, f"builtin_{number}")


def attributes(operator: tflite.Operator, graph: Graph, op: Op) -> Attrs:
    """Return what an operator of a file says of `op`, whose operands are in `graph`."""
    row = OPS[op.kind]
    if not row.is_read:
        return {}
    union, said = operator.BuiltinOptions(), operator.BuiltinOptionsType()
    if op.kind == "reshape" and said == tflite.BuiltinOptions.NONE:
        return {"new_shape": None}
    if union is None or said != getattr(tflite.BuiltinOptions, str(row.table)):
        raise CompileError(f"has no {row.table}", "the file may be damaged", op=op)
    options = getattr(tflite, str(row.table))()
    options.Init(union.Bytes, union.Pos)
    attrs: Attrs = {}
    for read in (field.read for field in row.fields if field.read is not None):
        attrs |= read(options, graph, replace(op, attrs=attrs))
    for key, value in attrs.items():
        if isinstance(value, float) and not isfinite(value):
            raise CompileError(f"has the {key} {value}", "the file may be damaged", op=op)
    return attrs


def values(graph: Graph, op: Op) -> Values:
    """Return what the table of options says of `op`."""
    written: Values = {}
    try:
        for field in OPS[op.kind].fields:
            written |= field.write(graph, op)
    except KeyError as error:
        raise CompileError(f"lacks the attribute {error}", op=op) from error
    return {name: float32(value, op=op) if isinstance(value, float) else value for name, value in written.items()}


def float32(value: float, **where: Any) -> float:
    """Return `value`, which the file must be able to hold exactly: a rounded scale would change results silently."""
    if float(np.float32(value)) != value:
        raise CompileError(f"{value!r} is not a float32 number", "round it first: float(numpy.float32(value))", **where)
    return value


# fields that many tables have


def _plain(attr: str, field: str = "") -> Field:
    """Return the field of a number or text, named like the attribute unless given."""
    name = field or "".join(map(str.capitalize, attr.split("_")))
    return Field(lambda o, graph, op: {attr: getattr(o, name)()}, lambda graph, op: {name: op.attrs[attr]})


def _derived(field: str, value: Callable[[Graph, Op], Any]) -> Field:
    """Return a field that says what the operands say, too."""
    return Field(None, lambda graph, op: {field: value(graph, op)})


def _required(field: str, value: Any, why: str, what_to_do: str) -> Field:
    """Return a field that must have a value, as the other one is not supported."""

    def read(o: Any, graph: Graph, op: Op) -> Attrs:
        if getattr(o, field)() != value:
            raise CompileError(why, what_to_do, op=op)
        return {}

    return Field(read, lambda graph, op: {})


def _choice(attr: str, field: str, what: str, numbers: Mapping[str, int]) -> Field:
    names, supported = {number: name for name, number in numbers.items()}, f"supported: {', '.join(numbers)}"

    def read(o: Any, graph: Graph, op: Op) -> Attrs:
        number = getattr(o, field)()
        if number not in names:
            raise CompileError(f"has the {what} number {number}", supported, op=op)
        return {attr: names[number]}

    def write(graph: Graph, op: Op) -> Values:
        if op.attrs[attr] not in numbers:
            raise CompileError(f"has the {what} {op.attrs[attr]}", supported, op=op)
        return {field: numbers[op.attrs[attr]]}

    return Field(read, write)


def _size(attr: str, h: str, w: str) -> Field:
    def read(o: Any, graph: Graph, op: Op) -> Attrs:
        size = getattr(o, h)(), getattr(o, w)()
        if min(size) < 1:
            raise CompileError(f"has the {attr} {size}", "both must be positive", op=op)
        return {attr: size}

    return Field(read, lambda graph, op: dict(zip((h, w), op.attrs[attr], strict=True)))


def _vector(o: Any, field: str, op: Op) -> tuple[int, ...]:
    count = getattr(o, f"{field}Length")()
    if count > MAX_RANK:
        raise CompileError(f"has {count} values of {field}", f"at most {MAX_RANK} are supported", op=op)
    return tuple(getattr(o, field)(index) for index in range(count))


# padding


def _extents(graph: Graph, op: Op, index: int) -> Size:
    """Return (h, w) of an input that must have four axes."""
    tensor = graph.optional_input(op, index)
    if tensor is None or len(tensor.shape) != 4:
        raise CompileError(f"needs an input {index} with four axes", "the file may be damaged", op=op)
    return tensor.shape[1], tensor.shape[2]


def _same(graph: Graph, op: Op) -> Padding | None:
    """Return what SAME stands for; None where only the running network knows the size of the map."""
    kernel = op.attrs["kernel"] if "kernel" in op.attrs else _extents(graph, op, 1)
    if op.kind != "transpose_conv":
        h, w = _extents(graph, op, 0)
    else:
        shape = graph.optional_input(op, 0)
        if shape is None or shape.data is None or shape.elements != 4:
            return None
        h, w = (int(extent) for extent in shape.data.ravel()[1:3])
    stride, dilation = op.attrs["stride"], op.attrs.get("dilation", (1, 1))
    return same_padding(h, kernel[0], stride[0], dilation[0]), same_padding(w, kernel[1], stride[1], dilation[1])


def _read_padding(o: Any, graph: Graph, op: Op) -> Attrs:
    same = _same(graph, op)
    if o.Padding() not in (tflite.Padding.SAME, tflite.Padding.VALID):
        raise CompileError(f"has the padding number {o.Padding()}", "supported: SAME and VALID", op=op)
    if o.Padding() == tflite.Padding.SAME and same is None:
        raise CompileError(
            "has SAME padding and an output shape that only the running network knows", "make it constant", op=op
        )
    return {"padding": same if o.Padding() == tflite.Padding.SAME else ((0, 0), (0, 0))}


def _write_padding(graph: Graph, op: Op) -> Values:
    padding = op.attrs["padding"]
    if padding != ((0, 0), (0, 0)) and padding != _same(graph, op):
        raise CompileError(
            f"its padding {padding} is neither SAME nor VALID, and .tflite has no other",
            "keep it as a pad op of its own",
            op=op,
        )
    return {"Padding": tflite.Padding.SAME if any(map(any, padding)) else tflite.Padding.VALID}


# fields of a few kinds


def _read_general_scales(o: Any, graph: Graph, op: Op) -> Attrs:
    if o.PotScaleInt16() and any(t is not None and t.dtype == "int16" for t in graph.inputs_of(op)):
        raise CompileError("is int16 with power-of-two scales", "use the general int16 quantisation, or int8", op=op)
    return {}


def _read_new_shape(o: Any, graph: Graph, op: Op) -> Attrs:
    return {"new_shape": None if o.NewShapeIsNone() else _vector(o, "NewShape", op)}


def _write_new_shape(graph: Graph, op: Op) -> Values:
    return {} if op.attrs["new_shape"] is None else {"NewShape": op.attrs["new_shape"]}


def _type(graph: Graph, op: Op) -> int:
    return TYPES[graph.output(op).dtype]


def _outputs(graph: Graph, op: Op) -> int:
    return len(op.outputs)


ACTIVATION = _choice("activation", "FusedActivationFunction", "fused activation", ACTIVATIONS)
TANH = _choice("activation", "FusedActivationFunction", "fused activation", {"tanh": tflite.ActivationFunctionType.TANH})
PADDING = Field(_read_padding, _write_padding)
STRIDE = _size("stride", "StrideH", "StrideW")
CONV = (STRIDE, _size("dilation", "DilationHFactor", "DilationWFactor"), PADDING, ACTIVATION)
POOL = (_size("kernel", "FilterHeight", "FilterWidth"), STRIDE, PADDING, ACTIVATION)
RESIZE = (_plain("align_corners"), _plain("half_pixel_centers"))
# the int16 kernels have a second arithmetic for power-of-two scales; tinyweave means the general one
SUM = (ACTIVATION, Field(_read_general_scales, lambda graph, op: {"PotScaleInt16": False}))
KEEP_DIMS, AXIS, BLOCK_SIZE = _plain("keep_dims"), _plain("axis"), _plain("block_size")
DEFAULT_WEIGHTS = _required(
    "WeightsFormat",
    tflite.FullyConnectedOptionsWeightsFormat.DEFAULT,
    "has shuffled weights",
    "export the model with the default weights format",
)
FULL_MATRICES = _required(
    "DiagonalRecurrentTensors", False, "has diagonal recurrent weights", "export the model with full matrices"
)
MULTIPLIER = _derived("DepthMultiplier", lambda graph, op: graph.output(op).shape[-1] // graph.input(op).shape[-1])
SQUEEZED = Field(
    lambda o, graph, op: {"axes": _vector(o, "SqueezeDims", op)}, lambda graph, op: {"SqueezeDims": op.attrs["axes"]}
)
SLICED = tuple(map(_plain, ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset")))

OPS = {
    "add": Options("AddOptions", SUM, (2, 3)),
    "arg_max": Options("ArgMaxOptions", (_derived("OutputType", _type),), (2, 1)),
    "assign_variable": Options("AssignVariableOptions"),
    "average_pool_2d": Options("Pool2DOptions", POOL, (2, 3)),
    "batch_matmul": Options("BatchMatMulOptions", (_plain("adj_x"), _plain("adj_y")), (2, 3)),
    "batch_to_space_nd": Options("BatchToSpaceNDOptions", versions=(2, 4)),
    "broadcast_to": Options("BroadcastToOptions", versions=(2, 3)),
    "call_once": Options("CallOnceOptions", (_plain("subgraph", "InitSubgraphIndex"),)),
    "cast": Options(
        "CastOptions", (_derived("InDataType", lambda graph, op: TYPES[graph.input(op).dtype]), _derived("OutDataType", _type))
    ),
    "concatenation": Options("ConcatenationOptions", (AXIS, ACTIVATION), (2, 3)),
    "conv_2d": Options("Conv2DOptions", CONV, (3, 4)),
    "depth_to_space": Options("DepthToSpaceOptions", (BLOCK_SIZE,), (2, 1)),
    "depthwise_conv_2d": Options("DepthwiseConv2DOptions", (*CONV, MULTIPLIER), (3, 5)),
    "dequantize": Options("DequantizeOptions", versions=(2, 3)),
    "elu": Options(),
    "expand_dims": Options("ExpandDimsOptions"),
    "fully_connected": Options("FullyConnectedOptions", (DEFAULT_WEIGHTS, ACTIVATION, _plain("keep_num_dims")), (4, 7)),
    "gather": Options("GatherOptions", (AXIS, _plain("batch_dims")), (2, 4)),
    "gather_nd": Options("GatherNdOptions", versions=(1, 3)),
    "gelu": Options("GeluOptions", (_plain("approximate"),), (2, 2)),
    "hard_swish": Options("HardSwishOptions"),
    "leaky_relu": Options("LeakyReluOptions", (_plain("alpha"),), (2, 2)),
    "log_softmax": Options("LogSoftmaxOptions", versions=(2, 1)),
    "logistic": Options(versions=(2, 3)),
    "max_pool_2d": Options("Pool2DOptions", POOL, (2, 3)),
    "maximum": Options("MaximumMinimumOptions", versions=(2, 4)),
    "mean": Options("ReducerOptions", (KEEP_DIMS,), (2, 3)),
    "minimum": Options("MaximumMinimumOptions", versions=(2, 4)),
    "mirror_pad": Options("MirrorPadOptions", (_choice("mode", "Mode", "mode", MIRROR_MODES),), (2, 3)),
    "mul": Options("MulOptions", (ACTIVATION,), (2, 4)),
    "pack": Options("PackOptions", (_derived("ValuesCount", lambda graph, op: len(op.inputs)), AXIS), (2, 3)),
    "pad": Options("PadOptions", versions=(2, 3)),
    "padv2": Options("PadV2Options", versions=(2, 3)),
    "prelu": Options(),
    "quantize": Options("QuantizeOptions"),
    "read_variable": Options("ReadVariableOptions"),
    "reduce_max": Options("ReducerOptions", (KEEP_DIMS,), (2, 3)),
    "reduce_min": Options("ReducerOptions", (KEEP_DIMS,), (2, 3)),
    "relu": Options(versions=(2, 3)),
    "relu6": Options(versions=(2, 3)),
    "relu_n1_to_1": Options(versions=(1, 2)),
    "reshape": Options("ReshapeOptions", (Field(_read_new_shape, _write_new_shape),)),
    "resize_bilinear": Options("ResizeBilinearOptions", RESIZE, (2, 4)),
    "resize_nearest_neighbor": Options("ResizeNearestNeighborOptions", RESIZE, (2, 4)),
    "rsqrt": Options(versions=(2, 3)),
    "shape": Options("ShapeOptions", (_derived("OutType", _type),)),
    "slice": Options("SliceOptions", versions=(2, 4)),
    "softmax": Options("SoftmaxOptions", (_plain("beta"),), (2, 3)),
    "space_to_batch_nd": Options("SpaceToBatchNDOptions", versions=(2, 4)),
    "space_to_depth": Options("SpaceToDepthOptions", (BLOCK_SIZE,), (2, 1)),
    "split": Options("SplitOptions", (_derived("NumSplits", _outputs),), (2, 4)),
    "split_v": Options("SplitVOptions", (_derived("NumSplits", _outputs),), (2, 2)),
    "squared_difference": Options("SquaredDifferenceOptions", versions=(2, 1)),
    "squeeze": Options("SqueezeOptions", (SQUEEZED,)),
    "strided_slice": Options("StridedSliceOptions", SLICED, (2, 4)),
    "sub": Options("SubOptions", SUM, (2, 5)),
    "svdf": Options("SVDFOptions", (_plain("rank"), ACTIVATION), (3, 1)),
    "tanh": Options(versions=(2, 3)),
    "tile": Options("TileOptions", versions=(3, 3)),
    "transpose": Options("TransposeOptions", versions=(2, 5)),
    "transpose_conv": Options("TransposeConvOptions", (STRIDE, PADDING, ACTIVATION), (3, 3)),
    "unidirectional_sequence_lstm": Options(
        "UnidirectionalSequenceLSTMOptions", (TANH, FULL_MATRICES, _plain("cell_clip"), _plain("time_major"))
    ),
    "unpack": Options("UnpackOptions", (_derived("Num", _outputs), AXIS), (2, 4)),
    "var_handle": Options("VarHandleOptions", (_plain("container"), _plain("shared_name"))),
}
