"""The options table of each op kind in a .tflite file, as attributes of an Op, for the importer and the exporter.

OPS has a row per op kind. The attribute `padding` holds numbers, but the file has only the names SAME and VALID; numbers that
are neither raise CompileError. Source: TFLite schema.fbs; op versions as in TFLite's op_version.cc.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isfinite, log2
from typing import Any

import numpy as np
import tflite
from flatbuffers import flexbuffers
from flatbuffers.number_types import Int32Flags

from .ir import CompileError, Graph, Op, Tensor, shortened
from .ops import detection
from .ops.constraints import has_narrow_bias
from .ops.functions import FUNCTIONS
from .ops.recurrent import sequence
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
    "tanh": tflite.ActivationFunctionType.TANH,  # the importer makes it an op of its own
}
MIRROR_MODES = {"reflect": tflite.MirrorPadMode.REFLECT, "symmetric": tflite.MirrorPadMode.SYMMETRIC}
WITHOUT_VALUE = ("var_handle", "call_once")  # kinds that initialise variables and are not ops of a Graph
CUSTOM = "tinyweave."  # the names of the custom ops that are written for kinds that TFLite lacks begin with it
MAX_CUSTOM = 1 << 10  # bytes of custom options that are read
NO_OPERANDS = Graph("", {}, (), (), ())  # stands for the graph of such an op


def names_of(enum: type) -> dict[int, str]:
    """Return number -> name for an enum of the schema."""
    return {value: key for key, value in vars(enum).items() if isinstance(value, int)}


KINDS = {code: name.lower() for code, name in names_of(tflite.BuiltinOperator).items()}

Attrs = dict[str, Any]
Values = dict[str, Any]  # schema field -> value; a tuple becomes a vector of int32, bytes a string


@dataclass(frozen=True)
class Field:
    """How an attribute of an op (rarely several or none) is read from, and written to, the fields of an options table.

    `read(table, graph, op)` returns the attributes; its argument `op` already has the attributes of the preceding Fields.
    `read` is None if the op's operands imply the value. `write(graph, op)` returns schema field -> value.
    """

    read: Callable[[Any, Graph, Op], Attrs] | None
    write: Callable[[Graph, Op], Values]


@dataclass(frozen=True)
class Options:
    """How the attributes of an op kind are stored in a .tflite file: in an options table, or in the options of a custom op."""

    table: str | None = None  # name of the options table in the schema; None if the kind has none
    fields: tuple[Field, ...] = ()
    # op versions for int8 and int16 data. For other types the version is 1, unless the exporter finds a feature that needs a
    # newer one
    versions: tuple[int, int] = (1, 1)
    numbers: tuple[str, ...] | None = None  # names of the attributes in the custom options; None for a builtin operator
    defaults: tuple[tuple[str, float], ...] = ()  # (attribute, value) of attributes that the custom options may lack
    # name of the custom op in TFLite; "" for a builtin operator, and for an op that TFLite lacks, whose name in the file is
    # CUSTOM and the kind
    custom: str = ""

    @property
    def is_read(self) -> bool:
        """Whether any attribute is read from the table."""
        return any(field.read is not None for field in self.fields)


def kind_of(model: tflite.Model, operator: tflite.Operator) -> str:
    """Return the op kind of an operator, such as "conv_2d"; else "custom <name>" or "builtin_<number>"."""
    index = operator.OpcodeIndex()
    if not 0 <= index < model.OperatorCodesLength():
        raise IndexError(f"op code {index} of {model.OperatorCodesLength()}")
    code = model.OperatorCodes(index)
    # codes above 126 are in the newer field only; BuiltinCode() of the tflite package ignores it if the older is absent
    field = code._tab.Offset(10)
    newer = code._tab.Get(Int32Flags, code._tab.Pos + field) if field else 0
    number = max(newer, code.DeprecatedBuiltinCode())
    if number == tflite.BuiltinOperator.CUSTOM:
        name = (code.CustomCode() or b"").decode(errors="replace")
        return CUSTOM_KINDS.get(name) or f"custom {shortened(name, 60)}"
    return KINDS.get(number, f"builtin_{number}")


def attributes(operator: tflite.Operator, graph: Graph, op: Op) -> Attrs:
    """Read the attributes of `op`, which has none yet, from the options table of the file's `operator`."""
    row = OPS[op.kind]
    if row.numbers:
        return _custom_numbers(operator, op, row)
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


def _custom_numbers(operator: tflite.Operator, op: Op, row: Options) -> Attrs:
    """Read the attributes of a custom op from its custom options, a FlexBuffers map that may be damaged."""
    try:
        count = operator.CustomOptionsLength()
        entries = flexbuffers.GetRoot(bytes(operator.CustomOptions(index) for index in range(min(count, MAX_CUSTOM)))).AsMap
        keys, defaults = {key.AsKey for key in entries.Keys}, dict(row.defaults)
        found = {name: entries[name].AsFloat if name in keys else defaults[name] for name in row.numbers or ()}
        numbers = {name: float(np.float32(number)) for name, number in found.items()}
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error) as error:
        raise CompileError("has custom options that cannot be read", "the file may be damaged", op=op) from error
    if not all(map(isfinite, numbers.values())):
        raise CompileError(f"has the attributes {numbers}", "the file may be damaged", op=op)
    return numbers


def custom_options(op: Op) -> bytes:
    """Return the custom options of a custom op: a FlexBuffers map of its attributes."""
    try:
        numbers = {name: float32(float(op.attrs[name]), op=op) for name in OPS[op.kind].numbers or ()}
    except KeyError as error:
        raise CompileError(f"lacks the attribute {error}", op=op) from error
    return bytes(flexbuffers.Dumps(numbers)) if numbers else b""


def values(graph: Graph, op: Op) -> Values:
    """Return the fields of the options table of `op` by name; raise CompileError if .tflite cannot hold an attribute."""
    written: Values = {}
    try:
        for field in OPS[op.kind].fields:
            written |= field.write(graph, op)
    except KeyError as error:
        raise CompileError(f"lacks the attribute {error}", op=op) from error
    return {name: float32(value, op=op) if isinstance(value, float) else value for name, value in written.items()}


def float32(value: float, **where: Any) -> float:
    """Return `value`; raise CompileError, with `where`, if float32 cannot hold it exactly and results would change."""
    if float(np.float32(value)) != value:
        raise CompileError(f"{value!r} is not a float32 number", "round it first: float(numpy.float32(value))", **where)
    return value


def _plain(attr: str, field: str = "") -> Field:
    """Return a Field for an attribute that is one number or string, whose name in the schema is `field` or CamelCase."""
    name = field or "".join(map(str.capitalize, attr.split("_")))
    return Field(lambda o, graph, op: {attr: getattr(o, name)()}, lambda graph, op: {name: op.attrs[attr]})


def _derived(field: str, value: Callable[[Graph, Op], Any]) -> Field:
    """Return a Field that is written but not read, because the op's operands imply `value(graph, op)`."""
    return Field(None, lambda graph, op: {field: value(graph, op)})


def _required(field: str, value: Any, why: str, what_to_do: str) -> Field:
    """Return a Field that writes nothing, and raises CompileError (`why`, `what_to_do`) if the file has another value."""

    def read(o: Any, graph: Graph, op: Op) -> Attrs:
        if getattr(o, field)() != value:
            raise CompileError(why, what_to_do, op=op)
        return {}

    return Field(read, lambda graph, op: {})


def _choice(attr: str, field: str, what: str, numbers: Mapping[str, int]) -> Field:
    """Return a Field for an enum: `attr` holds its name, the file its number in `numbers`; errors call the attribute `what`."""
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
    """Return a Field for the attribute `attr`, a pair (h, w), which the file stores in its two fields named by `h` and `w`."""

    def read(o: Any, graph: Graph, op: Op) -> Attrs:
        size = getattr(o, h)(), getattr(o, w)()
        if min(size) < 1:
            raise CompileError(f"has the {attr} {size}", "both must be positive", op=op)
        return {attr: size}

    return Field(read, lambda graph, op: dict(zip((h, w), op.attrs[attr], strict=True)))


def _vector(o: Any, field: str, op: Op) -> tuple[int, ...]:
    """Return the vector `field` of the options table `o` as a tuple; raise CompileError if it is longer than MAX_RANK."""
    count = getattr(o, f"{field}Length")()
    if count > MAX_RANK:
        raise CompileError(f"has {count} values of {field}", f"at most {MAX_RANK} are supported", op=op)
    return tuple(getattr(o, field)(index) for index in range(count))


def _extents(graph: Graph, op: Op, index: int) -> Size:
    """Return (h, w) of input number `index`; raise CompileError if this input has not four axes."""
    tensor = graph.optional_input(op, index)
    if tensor is None or len(tensor.shape) != 4:
        raise CompileError(f"needs an input {index} with four axes", "the file may be damaged", op=op)
    return tensor.shape[1], tensor.shape[2]


def _same(graph: Graph, op: Op) -> Padding:
    """Return the padding that SAME means for `op`, as numbers ((top, bottom), (left, right))."""
    kernel = op.attrs["kernel"] if "kernel" in op.attrs else _extents(graph, op, 1)
    h, w = _output_size(graph, op) if op.kind == "transpose_conv" else _extents(graph, op, 0)
    stride, dilation = op.attrs["stride"], op.attrs.get("dilation", (1, 1))
    return same_padding(h, kernel[0], stride[0], dilation[0]), same_padding(w, kernel[1], stride[1], dilation[1])


def _output_size(graph: Graph, op: Op) -> Size:
    """Return (h, w) of a transpose_conv's output: from the first input or, if that is not constant, from the output tensor."""
    shape, out = graph.optional_input(op, 0), graph.output(op).shape
    if shape is not None and shape.data is not None and shape.elements == 4:
        out = tuple(int(extent) for extent in shape.data.ravel())
    if len(out) != 4:
        raise CompileError("needs an output with four axes", "the file may be damaged", op=op)
    return out[1], out[2]


def _read_padding(o: Any, graph: Graph, op: Op) -> Attrs:
    if o.Padding() not in (tflite.Padding.SAME, tflite.Padding.VALID):
        raise CompileError(f"has the padding number {o.Padding()}", "supported: SAME and VALID", op=op)
    return {"padding": _same(graph, op) if o.Padding() == tflite.Padding.SAME else ((0, 0), (0, 0))}


def _write_padding(graph: Graph, op: Op) -> Values:
    padding = op.attrs["padding"]
    if padding != ((0, 0), (0, 0)) and padding != _same(graph, op):
        raise CompileError(f"has the padding {padding}; .tflite has only SAME and VALID", "keep it as a separate pad op", op=op)
    return {"Padding": tflite.Padding.SAME if any(map(any, padding)) else tflite.Padding.VALID}


def _read_general_scales(o: Any, graph: Graph, op: Op) -> Attrs:
    """Return no attributes; raise CompileError if TFLite would compute an int16 add or sub with power-of-two arithmetic."""
    tensors = [t for t in (*graph.inputs_of(op), *graph.outputs_of(op)) if t is not None]
    if o.PotScaleInt16() and all(t.dtype == "int16" and _is_power_of_two(t) for t in tensors):
        raise CompileError(
            "is int16, and all scales are powers of two, for which TFLite uses arithmetic that tinyweave does not support",
            "write it with pot_scale_int16 = false, or quantise it with other scales or to int8",
            op=op,
        )
    return {}


def _is_power_of_two(tensor: Tensor) -> bool:
    """Return whether TFLite treats a tensor's scale as a power of two: within 0.001 in log2, as its CheckedLog2 tests."""
    octaves = log2(tensor.quant.scale[0]) if tensor.quant is not None else 0.5
    return abs(octaves - round(octaves)) < 1e-3


def _read_new_shape(o: Any, graph: Graph, op: Op) -> Attrs:
    """Return the attribute `new_shape` of a reshape, None if the shape is only an input of the op."""
    return {"new_shape": None if o.NewShapeIsNone() else _vector(o, "NewShape", op)}


def _write_new_shape(graph: Graph, op: Op) -> Values:
    """Return the field NewShape of a reshape, or no field if the attribute is None."""
    return {} if op.attrs["new_shape"] is None else {"NewShape": op.attrs["new_shape"]}


def _type(graph: Graph, op: Op) -> int:
    return int(TYPES[graph.output(op).dtype])


def _outputs(graph: Graph, op: Op) -> int:
    return len(op.outputs)


def _read_bias_type(o: Any, graph: Graph, op: Op) -> Attrs:
    """Return no attributes; raise CompileError if int16 data have an int32 bias that TFLite would read as int64."""
    if o.QuantizedBiasType() != TYPES["int32"] and has_narrow_bias(graph, op):
        raise CompileError(
            "is int16 with an int32 bias, but its quantized_bias_type is not INT32, so TFLite reads the bias as int64",
            "convert the model again",
            op=op,
        )
    return {}


# the schema's default, 0, stands for the bias of all other ops
BIAS_TYPE = Field(_read_bias_type, lambda graph, op: {"QuantizedBiasType": TYPES["int32"] if has_narrow_bias(graph, op) else 0})
ACTIVATION = _choice("activation", "FusedActivationFunction", "fused activation", ACTIVATIONS)
TANH = _choice("activation", "FusedActivationFunction", "fused activation", {"tanh": tflite.ActivationFunctionType.TANH})
PADDING = Field(_read_padding, _write_padding)
STRIDE = _size("stride", "StrideH", "StrideW")
CONV = (STRIDE, _size("dilation", "DilationHFactor", "DilationWFactor"), PADDING, ACTIVATION)
POOL = (_size("kernel", "FilterHeight", "FilterWidth"), STRIDE, PADDING, ACTIVATION)
RESIZE = (_plain("align_corners"), _plain("half_pixel_centers"))
# if pot_scale_int16 is set (the default) and all scales are powers of two, TFLite's int16 kernels use other arithmetic
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
    **{spec.kind: Options(numbers=spec.numbers) for spec in (*FUNCTIONS, *sequence.SPECS) if spec.kind not in KINDS.values()},
    "lookup": Options(numbers=()),
    "abs": Options("AbsOptions", versions=(2, 3)),
    "add": Options("AddOptions", SUM, (2, 3)),
    "arg_max": Options("ArgMaxOptions", (_derived("OutputType", _type),), (2, 1)),
    "arg_min": Options("ArgMinOptions", (_derived("OutputType", _type),), (2, 1)),
    "assign_variable": Options("AssignVariableOptions"),
    "average_pool_2d": Options("Pool2DOptions", POOL, (2, 3)),
    "batch_matmul": Options("BatchMatMulOptions", (_plain("adj_x"), _plain("adj_y")), (2, 3)),
    "batch_to_space_nd": Options("BatchToSpaceNDOptions", versions=(2, 4)),
    "broadcast_to": Options("BroadcastToOptions", versions=(2, 3)),
    "call_once": Options("CallOnceOptions", (_plain("subgraph", "InitSubgraphIndex"),)),
    "cast": Options(
        "CastOptions", (_derived("InDataType", lambda graph, op: TYPES[graph.input(op).dtype]), _derived("OutDataType", _type))
    ),
    "ceil": Options(),
    "concatenation": Options("ConcatenationOptions", (AXIS, ACTIVATION), (2, 3)),
    "conv_2d": Options("Conv2DOptions", (*CONV, BIAS_TYPE), (3, 4)),
    "cos": Options("CosOptions"),
    "cumsum": Options("CumsumOptions", (_plain("exclusive"), _plain("reverse"))),
    "densify": Options("DensifyOptions"),
    "depth_to_space": Options("DepthToSpaceOptions", (BLOCK_SIZE,), (2, 1)),
    "depthwise_conv_2d": Options("DepthwiseConv2DOptions", (*CONV, MULTIPLIER), (3, 5)),
    "dequantize": Options("DequantizeOptions", versions=(2, 3)),
    "detection_postprocess": Options(
        numbers=detection.NUMBERS,
        defaults=(("detections_per_class", 100), ("use_regular_nms", 0)),
        custom="TFLite_Detection_PostProcess",
    ),
    "div": Options("DivOptions", (ACTIVATION,), (2, 1)),
    "elu": Options(),
    "embedding_lookup": Options(),
    "equal": Options("EqualOptions", versions=(2, 1)),
    "exp": Options("ExpOptions", versions=(2, 2)),
    "expand_dims": Options("ExpandDimsOptions"),
    "fill": Options("FillOptions"),
    "floor": Options(),
    "fully_connected": Options(
        "FullyConnectedOptions", (DEFAULT_WEIGHTS, ACTIVATION, _plain("keep_num_dims"), BIAS_TYPE), (4, 7)
    ),
    "gather": Options("GatherOptions", (AXIS, _plain("batch_dims")), (2, 4)),
    "gather_nd": Options("GatherNdOptions", versions=(1, 3)),
    "gelu": Options("GeluOptions", (_plain("approximate"),), (2, 2)),
    "greater": Options("GreaterOptions", versions=(2, 1)),
    "greater_equal": Options("GreaterEqualOptions", versions=(2, 1)),
    "hard_swish": Options("HardSwishOptions"),
    "l2_normalization": Options("L2NormOptions", (ACTIVATION,), (2, 1)),
    "leaky_relu": Options("LeakyReluOptions", (_plain("alpha"),), (2, 2)),
    "less": Options("LessOptions", versions=(2, 1)),
    "less_equal": Options("LessEqualOptions", versions=(2, 1)),
    "log": Options(versions=(2, 2)),
    "log_softmax": Options("LogSoftmaxOptions", versions=(2, 1)),
    "logical_and": Options("LogicalAndOptions"),
    "logical_not": Options("LogicalNotOptions"),
    "logical_or": Options("LogicalOrOptions"),
    "logistic": Options(versions=(2, 3)),
    "max_pool_2d": Options("Pool2DOptions", POOL, (2, 3)),
    "maximum": Options("MaximumMinimumOptions", versions=(2, 4)),
    "mean": Options("ReducerOptions", (KEEP_DIMS,), (2, 3)),
    "minimum": Options("MaximumMinimumOptions", versions=(2, 4)),
    "mirror_pad": Options("MirrorPadOptions", (_choice("mode", "Mode", "mode", MIRROR_MODES),), (2, 3)),
    "mul": Options("MulOptions", (ACTIVATION,), (2, 4)),
    "neg": Options("NegOptions"),
    "not_equal": Options("NotEqualOptions", versions=(2, 1)),
    "one_hot": Options("OneHotOptions", (AXIS,)),
    "pack": Options("PackOptions", (_derived("ValuesCount", lambda graph, op: len(op.inputs)), AXIS), (2, 3)),
    "pad": Options("PadOptions", versions=(2, 3)),
    "padv2": Options("PadV2Options", versions=(2, 3)),
    "prelu": Options(),
    "quantize": Options("QuantizeOptions"),
    "read_variable": Options("ReadVariableOptions"),
    "reduce_all": Options("ReducerOptions", (KEEP_DIMS,)),
    "reduce_any": Options("ReducerOptions", (KEEP_DIMS,)),
    "reduce_prod": Options("ReducerOptions", (KEEP_DIMS,), (2, 2)),
    "reduce_max": Options("ReducerOptions", (KEEP_DIMS,), (2, 3)),
    "reduce_min": Options("ReducerOptions", (KEEP_DIMS,), (2, 3)),
    "relu": Options(versions=(2, 3)),
    "relu6": Options(versions=(2, 3)),
    "relu_0_to_1": Options(),
    "relu_n1_to_1": Options(versions=(1, 2)),
    "reshape": Options("ReshapeOptions", (Field(_read_new_shape, _write_new_shape),)),
    "resize_bilinear": Options("ResizeBilinearOptions", RESIZE, (2, 4)),
    "resize_nearest_neighbor": Options("ResizeNearestNeighborOptions", RESIZE, (2, 4)),
    "reverse_sequence": Options("ReverseSequenceOptions", (_plain("seq_dim"), _plain("batch_dim"))),
    "reverse_v2": Options("ReverseV2Options"),
    "round": Options(),
    "rsqrt": Options(versions=(2, 3)),
    "select": Options("SelectOptions"),
    "select_v2": Options("SelectV2Options"),
    "shape": Options("ShapeOptions", (_derived("OutType", _type),)),
    "sign": Options("SignOptions"),
    "sin": Options(),
    "slice": Options("SliceOptions", versions=(2, 4)),
    "softmax": Options("SoftmaxOptions", (_plain("beta"),), (2, 3)),
    "space_to_batch_nd": Options("SpaceToBatchNDOptions", versions=(2, 4)),
    "space_to_depth": Options("SpaceToDepthOptions", (BLOCK_SIZE,), (2, 1)),
    "split": Options("SplitOptions", (_derived("NumSplits", _outputs),), (2, 4)),
    "split_v": Options("SplitVOptions", (_derived("NumSplits", _outputs),), (2, 2)),
    "sqrt": Options(),
    "square": Options("SquareOptions"),
    "squared_difference": Options("SquaredDifferenceOptions", versions=(2, 1)),
    "squeeze": Options("SqueezeOptions", (SQUEEZED,)),
    "strided_slice": Options("StridedSliceOptions", SLICED, (2, 4)),
    "sub": Options("SubOptions", SUM, (2, 5)),
    "sum": Options("ReducerOptions", (KEEP_DIMS,), (2, 3)),
    "svdf": Options("SVDFOptions", (_plain("rank"), ACTIVATION), (3, 1)),
    "tanh": Options(versions=(2, 3)),
    "topk_v2": Options("TopKV2Options", versions=(2, 3)),
    "tile": Options("TileOptions", versions=(3, 3)),
    "transpose": Options("TransposeOptions", versions=(2, 5)),
    "transpose_conv": Options("TransposeConvOptions", (STRIDE, PADDING, ACTIVATION, BIAS_TYPE), (3, 3)),
    "unidirectional_sequence_lstm": Options(
        "UnidirectionalSequenceLSTMOptions", (TANH, FULL_MATRICES, _plain("cell_clip"), _plain("time_major"))
    ),
    "unpack": Options("UnpackOptions", (_derived("Num", _outputs), AXIS), (2, 4)),
    "var_handle": Options("VarHandleOptions", (_plain("container"), _plain("shared_name"))),
    "zeros_like": Options("ZerosLikeOptions"),
}
# name of a custom op -> its kind
CUSTOM_KINDS = {row.custom or CUSTOM + kind: kind for kind, row in OPS.items() if row.numbers is not None}
