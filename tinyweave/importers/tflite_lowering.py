"""Rewrite ops of a .tflite file without a kind or kernel as ops that compute the same bytes; LOWERED has a function per kind.

A function appends the new ops to a Lowering, or returns False to keep the op as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError, Op, Quant, Tensor
from ..ops import detection
from ..ops.fixed_point import round_half_away
from ..ops.spec import ACTIVATIONS, PROBABILITY
from ..passes.rewrite import unused
from ..tflite_schema import NO_OPERANDS
from .tflite_constants import real_values

MAX_DEPTH = 1 << 11  # of one_hot; a larger matrix does not fit a microcontroller


@dataclass
class Lowering:
    """The rewriting of one op: the op, the graph's tensors, to which new ones are added, and the ops that replace it."""

    op: Op
    tensors: dict[str, Tensor]
    ops: list[Op]
    first: int  # the number of ops before the new ones

    def input(self, index: int) -> Tensor | None:
        """Return the input `index` of the op, or None if it is absent."""
        name = self.op.inputs[index] if index < len(self.op.inputs) else None
        return None if name is None else self.tensors[name]

    @property
    def output(self) -> Tensor:
        """The output of the op."""
        return self.tensors[self.op.outputs[0]]

    def name(self, role: str) -> str:
        """Return an unused tensor name: `<op>.<role>`, with underscores appended if this is taken."""
        return unused(f"{self.op.name}.{role}", self.tensors)

    def integers(self, role: str, values: Any) -> str:
        """Add an int32 constant, called `<op>.<role>` if this is unused, and return its name."""
        return self.constant(role, np.array(values, np.int32))

    def constant(self, role: str, data: NDArray[Any], quant: Quant | None = None) -> str:
        """Add a constant, called `<op>.<role>` if this is unused, and return its name."""
        name = self.name(role)
        self.tensors[name] = Tensor(name, data.shape, str(data.dtype), quant, data, "constant")
        return name

    def emit(self, kind: str, inputs: Sequence[str], out: Tensor | str, attrs: Mapping[str, Any] | None = None) -> str:
        """Append an op whose output is the existing tensor named `out` or the new tensor `out`; return the output's name."""
        name = out if isinstance(out, str) else out.name
        if isinstance(out, Tensor):
            self.tensors[name] = out
        self.ops.append(Op(f"{kind}_{self.first + len(self.ops)}", kind, tuple(inputs), (name,), dict(attrs or {})))
        return name

    def reshape(self, x: Tensor, shape: Sequence[int], out: str | None = None) -> Tensor:
        """Append a reshape and return its output, `out` or a new tensor; without `out`, only if the shape changes."""
        if out is None and x.shape == tuple(shape):
            return x
        made = out or replace(x, name=self.name("reshaped"), shape=tuple(shape), data=None, role="activation")
        wanted = self.integers("shape", shape)
        return self.tensors[self.emit("reshape", (x.name, wanted), made, {"new_shape": tuple(shape)})]


def gather(low: Lowering) -> bool:
    """Rewrite a gather whose indices are computed as gather_nd of the data with the gathered axis first."""
    data, indices, out = low.input(0), low.input(1), low.output
    if data is None or indices is None or indices.data is not None or low.op.attrs["batch_dims"]:
        return False
    axis = low.op.attrs["axis"] % max(len(data.shape), 1)
    return _slices(low, data, indices, axis) if prod(data.shape[:axis]) == 1 and len(out.shape) else False


def embedding_lookup(low: Lowering) -> bool:
    """Rewrite embedding_lookup, whose first input has the indices, as gather_nd."""
    indices, data = low.input(0), low.input(1)
    return indices is not None and data is not None and _slices(low, data, indices, 0)


def one_hot(low: Lowering) -> bool:
    """Rewrite one_hot along the last axis, with constant depth and values and no negative index, as gather_nd of a matrix."""
    indices, *constants = (low.input(index) for index in range(4))
    data = [each.data for each in constants if each is not None and each.data is not None and each.elements == 1]
    if indices is None or len(data) < 3 or data[0].dtype != np.int32 or low.op.attrs["axis"] not in (-1, len(indices.shape)):
        return False
    (depth,), on, off = (each.ravel() for each in data)
    if not 0 < depth <= MAX_DEPTH:
        return False
    rows = np.where(np.eye(depth + 1, depth, dtype=bool), on, off)  # larger indices select the last row, which has no `on`
    table = low.constant("rows", rows, low.output.quant)
    return _slices(low, low.tensors[table], indices, 0)


def _slices(low: Lowering, data: Tensor, indices: Tensor, axis: int) -> bool:
    """Append a gather_nd that takes slices along `axis`, before which all axes have extent 1, and return True."""
    if indices.dtype == "int64":
        narrow = replace(indices, name=low.name("indices"), dtype="int32")
        indices = low.tensors[low.emit("cast", (indices.name,), narrow)]
    vectors = low.reshape(indices, (*indices.shape, 1))
    rows = low.reshape(data, data.shape[axis:])
    made = replace(low.output, name=low.name("slices"), shape=(*indices.shape, *rows.shape[1:]))
    low.emit("gather_nd", (rows.name, vectors.name), made)
    low.reshape(made, low.output.shape, low.output.name)
    return True


def reverse(low: Lowering) -> bool:
    """Rewrite reverse_v2 with constant axes as strided_slice with strides of -1."""
    x, axes = low.input(0), low.input(1)
    if x is None or axes is None or axes.data is None:
        return False
    rank, chosen = len(x.shape), {int(axis) for axis in axes.data.ravel()}
    if not all(-rank <= axis < rank for axis in chosen):
        return False
    steps = np.ones(rank, int)
    steps[list(chosen)] = -1
    whole = (1 << rank) - 1
    masks = {"begin_mask": whole, "end_mask": whole, "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 0}
    zeros = low.integers("zeros", np.zeros(rank))
    low.emit("strided_slice", (x.name, zeros, zeros, low.integers("steps", steps)), low.output.name, masks | {"offset": False})
    return True


def reverse_sequence(low: Lowering) -> bool:
    """Rewrite reverse_sequence with constant lengths as a gather along the axes from the batch axis to the sequence axis."""
    x, lengths = low.input(0), low.input(1)
    sequence, batch = (int(low.op.attrs[name]) for name in ("seq_dim", "batch_dim"))
    first, last = sorted((sequence, batch))
    if x is None or lengths is None or lengths.data is None or not 0 <= first < last < len(x.shape):
        return False
    if lengths.shape != (x.shape[batch],) or not ((lengths.data >= 0) & (lengths.data <= x.shape[sequence])).all():
        return False
    places = np.indices(x.shape[first : last + 1])
    at, length = places[sequence - first], lengths.data[places[batch - first]]
    places[sequence - first] = np.where(at < length, length - 1 - at, at)
    indices = np.ravel_multi_index(tuple(places), x.shape[first : last + 1]).ravel()
    rows = low.reshape(x, (prod(x.shape[:first]), indices.size, prod(x.shape[last + 1 :])))
    made = replace(rows, name=low.name("turned"), data=None, role="activation")
    low.emit("gather", (rows.name, low.integers("indices", indices)), made, {"axis": 1, "batch_dims": 0})
    low.reshape(made, low.output.shape, low.output.name)
    return True


def logistic(low: Lowering) -> bool:
    """Rewrite logistic on int8 with another output scale than 1/256 as logistic and quantize."""
    out = low.output
    if out.dtype != "int8" or out.quant is None or out.quant.per_channel or out.quant == PROBABILITY:
        return False
    shares = replace(out, name=low.name("shares"), quant=PROBABILITY)
    low.emit("quantize", (low.emit("logistic", [str(low.op.inputs[0])], shares),), out.name)
    return True


def fill(low: Lowering) -> bool:
    """Rewrite fill as broadcast_to of its value."""
    extents, value = low.op.inputs
    if extents is None or value is None:
        return False
    low.emit("broadcast_to", (value, extents), low.output.name)
    return True


def zeros_like(low: Lowering) -> bool:
    """Rewrite zeros_like as broadcast_to of a 0."""
    out = low.output
    zero = replace(out, name=low.name("zero"), shape=(), data=np.zeros((), out.dtype), role="constant")
    low.tensors[zero.name] = zero
    low.emit("broadcast_to", (zero.name, low.integers("shape", out.shape)), out.name)
    return True


def fully_connected(low: Lowering) -> bool:
    """Rewrite fully_connected with computed weights and no bias as batch_matmul, and its fused activation as an op."""
    x, weights, bias, out = low.input(0), low.input(1), low.input(2), low.output
    activation = low.op.attrs["activation"]
    if x is None or weights is None or weights.data is not None or len(weights.shape) != 2 or activation not in ACTIVATIONS:
        return False
    if bias is not None and (bias.data is None or bias.data.any()):
        return False
    rows = low.reshape(x, (x.elements // max(weights.shape[1], 1), weights.shape[1]))
    made = replace(out, name=low.name("product"), shape=(rows.shape[0], weights.shape[0]))
    low.emit("batch_matmul", (rows.name, weights.name), made, {"adj_x": False, "adj_y": True, "once": x.dtype == "int8"})
    if activation != "none":
        made = replace(made, name=low.name("clamped"))
        low.emit(activation, (low.ops[-1].outputs[0],), made)
    low.reshape(made, out.shape, out.name)
    return True


def depthwise_conv_2d(low: Lowering) -> bool:
    """Rewrite depthwise_conv_2d on int16 as conv_2d with a group per channel, which has a kernel on int16."""
    x, weights, bias = low.input(0), low.input(1), low.input(2)
    if x is None or weights is None or weights.data is None or x.dtype != "int16" or weights.data.ndim != 4:
        return False
    if bias is not None and bias.dtype != "int64":  # which LiteRT's depthwise kernel reads as int64 all the same
        return False
    quant = None if weights.quant is None else replace(weights.quant, axis=0 if weights.quant.per_channel else None)
    filters = low.constant("filters", weights.data.transpose(3, 1, 2, 0), quant)
    zeros = "" if bias is not None else low.constant("zeros", np.zeros(weights.shape[3], np.int64))
    low.emit("conv_2d", (x.name, filters, bias.name if bias is not None else zeros), low.output.name, low.op.attrs)
    return True


def concatenation(low: Lowering) -> bool:
    """Rewrite concatenation with a fused activation as concatenation and activation, and requantise inputs of other scales."""
    out, inputs, activation = low.output, [low.input(index) for index in range(len(low.op.inputs))], low.op.attrs["activation"]
    narrow = out.dtype in ("int8", "int16", "uint8") and all(x is not None and x.dtype == out.dtype for x in inputs)
    if not narrow or (activation == "none" and all(x is not None and x.quant == out.quant for x in inputs)):
        return False
    parts = list[str]()
    for x in inputs:
        assert x is not None
        parts.append(x.name if x.quant == out.quant else _rescaled(low, x, f"requantised_{len(parts)}"))
    joined = out.name if activation == "none" else replace(out, name=low.name("joined"))
    attrs = {**low.op.attrs, "activation": "none"}
    rescaled = [name for name, own in zip(parts, low.op.inputs, strict=True) if name != own]
    name = low.emit("concatenation", parts, joined, attrs | {"rescaled": True} if rescaled else attrs)
    if activation != "none":
        low.emit(activation, (name,), out.name)
    return True


def _rescaled(low: Lowering, x: Tensor, role: str) -> str:
    """Rescale an operand of a concatenation to the output's scale; uint8 by a table of LiteRT's results, in float32."""
    out = low.output
    alike = replace(x, name=low.name(role), quant=out.quant, data=None, role="activation")
    if x.dtype != "uint8":
        return low.emit("quantize", (x.name,), alike)
    one = np.float32(1)
    scale = np.float32(x.scale) * (one / np.float32(out.scale))
    reals = np.arange(256, dtype=np.float32) * scale + np.float32(-x.zero_point) * scale
    table = np.clip(round_half_away(reals).astype(np.float64) + out.zero_point, 0, 255).astype(np.uint8)
    if x.data is not None:
        return low.constant(role, table[x.data], out.quant)
    return low.emit("lookup", (x.name, low.constant(f"{role}_table", (table ^ np.uint8(128)).view(np.int8))), alike)


def cumsum(low: Lowering) -> bool:
    """Rewrite cumsum on int8 as a dense layer whose weights are 1 for the elements that are summed, and else 0."""
    x, axes, out = low.input(0), low.input(1), low.output
    if x is None or axes is None or axes.data is None or axes.elements != 1 or x.dtype != "int8":
        return False
    axis = int(axes.data.ravel()[0])
    if not -len(x.shape) <= axis < len(x.shape):
        return False
    axis %= len(x.shape)
    extent, order = x.shape[axis], [*(i for i, _ in enumerate(x.shape) if i != axis), axis]
    summed = np.tri(extent, k=-1 if low.op.attrs["exclusive"] else 0, dtype=np.int8)
    ones = low.constant("ones", summed[::-1, ::-1] if low.op.attrs["reverse"] else summed, Quant((1.0,), (0,)))
    turned = replace(x, name=low.name("turned"), shape=tuple(x.shape[i] for i in order), data=None, role="activation")
    sums = replace(out, name=low.name("sums"), shape=turned.shape)
    low.emit("transpose", (x.name, low.integers("order", order)), turned)
    low.emit("fully_connected", (turned.name, ones), sums, {"activation": "none", "keep_num_dims": True})
    low.emit("transpose", (sums.name, low.integers("back", np.argsort(order))), out.name)
    return True


def relu_0_to_1(low: Lowering) -> bool:
    """Rewrite relu_0_to_1 as relu and relu_n1_to_1."""
    out = low.output
    low.emit("relu_n1_to_1", [low.emit("relu", [str(low.op.inputs[0])], replace(out, name=low.name("relu")))], out.name)
    return True


def select(low: Lowering) -> bool:
    """Rewrite select as select_v2; a condition of one axis selects along the first axis."""
    condition, x = low.input(0), low.input(1)
    if condition is None or x is None:
        return False
    if condition.shape != x.shape:
        condition = low.reshape(condition, (*condition.shape, *[1] * (len(x.shape) - len(condition.shape))))
    low.emit("select_v2", (condition.name, *map(str, low.op.inputs[1:])), low.output.name)
    return True


def dequantize(low: Lowering) -> bool:
    """Replace dequantize of a constant, such as float16 or int8 weights, by a float32 constant."""
    x = low.input(0)
    if x is None or x.data is None or low.output.dtype != "float32" or (x.dtype != "float32" and x.quant is None):
        return False
    return _replaced(low, x.data if x.dtype == "float32" else real_values(x))


def densify(low: Lowering) -> bool:
    """Replace densify of a constant by the constant."""
    x = low.input(0)
    return x is not None and x.data is not None and x.dtype == low.output.dtype and _replaced(low, x.data)


def _replaced(low: Lowering, values: NDArray[Any]) -> bool:
    """Make the output of the lowered op a constant and return True, or return False if it has another shape."""
    out = low.output
    if values.shape == out.shape:
        low.tensors[out.name] = replace(out, data=values, role="constant")
    return values.shape == out.shape


def detection_postprocess(low: Lowering) -> bool:
    """Keep the op, and give its outputs the shapes that TFLite computes; files lack them, or have others."""
    graph = replace(NO_OPERANDS, tensors=low.tensors)
    for name, shape in zip(low.op.outputs, detection.infer(graph, low.op), strict=True):
        low.tensors[name] = replace(low.tensors[name], shape=shape)
    return False


# kinds that exist, of which some forms are rewritten
FORMS: Mapping[str, Callable[[Lowering], bool]] = {
    "concatenation": concatenation,
    "depthwise_conv_2d": depthwise_conv_2d,
    "dequantize": dequantize,
    "detection_postprocess": detection_postprocess,
    "fully_connected": fully_connected,
    "gather": gather,
    "logistic": logistic,
}
OUTPUTS = {"detection_postprocess": 4}  # of a rewritten kind, if not 1
# kinds that are rewritten always; they are no kinds of a Graph
LOWERED: Mapping[str, Callable[[Lowering], bool]] = {
    "cumsum": cumsum,
    "densify": densify,
    "embedding_lookup": embedding_lookup,
    "fill": fill,
    "one_hot": one_hot,
    "relu_0_to_1": relu_0_to_1,
    "reverse_sequence": reverse_sequence,
    "reverse_v2": reverse,
    "select": select,
    "zeros_like": zeros_like,
}


def lowered(op: Op, tensors: dict[str, Tensor], first: int) -> list[Op]:
    """Return the ops that compute what `op` computes, in the supported forms of LOWERED; new tensors are added to `tensors`.

    `first`, the number of ops of the graph before `op`, names the new ops.
    """
    if op.attrs.get("activation") == "tanh" and op.kind != "unidirectional_sequence_lstm":
        return _with_tanh(op, tensors, first)
    rewrite = (LOWERED.get(op.kind) or FORMS.get(op.kind)) if len(op.outputs) == OUTPUTS.get(op.kind, 1) else None
    low = Lowering(op, tensors, [], first)
    if rewrite is not None and rewrite(low):
        return low.ops
    if op.kind in LOWERED:
        known = " ".join((LOWERED[op.kind].__doc__ or "").split()).removesuffix(".")
        raise CompileError(
            f"has an unsupported form; supported: {known[0].lower()}{known[1:]}", "export it in this form", op=op
        )
    return [op]


def _with_tanh(op: Op, tensors: dict[str, Tensor], first: int) -> list[Op]:
    """Return the ops of a float32 op with the fused activation tanh; the arguments are those of `lowered`."""
    (out,) = (tensors[name] for name in op.outputs)
    if out.dtype != "float32":
        raise CompileError(
            f"is {out.dtype} with the fused activation tanh, so the file has no scale for the values before tanh",
            "export tanh as an op of its own, or give the float model",
            op=op,
        )
    low = Lowering(op, tensors, [], first)
    inner = replace(out, name=low.name("before_tanh"))
    tensors[inner.name] = inner
    low.ops += lowered(replace(op, outputs=(inner.name,), attrs={**op.attrs, "activation": "none"}), tensors, first)
    low.emit("tanh", (inner.name,), out.name)
    return low.ops
