"""Convert quantised uint8 tensors to int8: subtract 128 from values and zero points, which changes no real number.

Inputs and outputs of the graph stay uint8; a quantize op converts them. If LiteRT rounds differently for uint8 than for int8,
the op gets the attribute `unsigned`, which its reference and its kernel follow, or is refused if it has no such form. Tensors
that only a quantize or dequantize op touches stay uint8, and so do all tensors if no op computes on uint8 values.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..ir import UNSUPPORTED, CompileError, Graph, Op, Tensor, rebuild
from ..ops import spec_of
from .rewrite import unused
from .tensor_map import TensorMap


def shift_uint8(graph: Graph) -> tuple[Graph, TensorMap]:
    """Convert the quantised uint8 tensors of the graph to int8; the TensorMap has the int8 tensors of inputs and outputs."""
    shifted = {
        name
        for op in graph.ops
        if spec_of(op).family != "conversion"
        for name in (*op.inputs, *op.outputs)
        if name is not None and graph.tensors[name].dtype == "uint8" and graph.tensors[name].quant is not None
    }
    if not any(not _moves(op) and not shifted.isdisjoint((*op.inputs, *op.outputs)) for op in graph.ops):
        return graph, {}  # nothing computes on uint8
    tensors = {name: _shifted(tensor) if name in shifted else tensor for name, tensor in graph.tensors.items()}
    edges: dict[str, str] = {}  # uint8 input or output of the graph -> its int8 tensor
    for name in [name for name in dict.fromkeys((*graph.inputs, *graph.outputs)) if name in shifted]:
        edges[name] = inner = unused(f"{name}_int8", tensors)
        tensors[name], tensors[inner] = graph.tensors[name], replace(tensors[name], name=inner)
    sources: TensorMap = {inner: (name, None) for name, inner in edges.items()}

    ops = [Op(f"quantize_input_{i}", "quantize", (n,), (edges[n],)) for i, n in enumerate(graph.inputs) if n in edges]
    for op in graph.ops:
        moved = replace(
            op,
            inputs=tuple(name and edges.get(name, name) for name in op.inputs),
            outputs=tuple(edges.get(name, name) for name in op.outputs),
        )
        is_kept = spec_of(op).family == "conversion" or shifted.isdisjoint((*op.inputs, *op.outputs))
        if not is_kept:
            _refuse_mixture(graph, op)
        ops.append(moved if is_kept else _int8_op(op, moved, tensors))
    written = {name: i for i, name in enumerate(graph.outputs) if name in edges and name in graph.producer}
    ops += [Op(f"quantize_output_{i}", "quantize", (edges[name],), (name,)) for name, i in written.items()]
    return rebuild(graph, tensors=tensors, ops=tuple(ops)), sources


def _moves(op: Op) -> bool:
    """Return whether an op computes nothing on the values of its input: it moves them, or reads only their shape."""
    return spec_of(op).moves or op.kind == "shape"


def _refuse_mixture(graph: Graph, op: Op) -> None:
    """Raise CompileError if an op has quantised tensors of int8 and of uint8: LiteRT's kernels read all of them as one type."""
    by_type = {t.dtype: t for t in (*graph.outputs_of(op), *graph.inputs_of(op)) if t is not None and t.quant is not None}
    if by_type.keys() >= {"int8", "uint8"}:
        names = " and ".join(f"{dtype} ('{by_type[dtype].name}')" for dtype in ("int8", "uint8"))
        raise CompileError(
            f"mixes {names}, which LiteRT does not compute", "convert one of them by a quantize op before it", op=op
        )


def _shifted(tensor: Tensor) -> Tensor:
    """Return a quantised uint8 tensor as an int8 tensor of the same real numbers."""
    assert tensor.quant is not None
    quant = replace(tensor.quant, zero_point=tuple(zero - 128 for zero in tensor.quant.zero_point))
    data = None if tensor.data is None else (tensor.data ^ np.uint8(128)).view(np.int8)
    return replace(tensor, dtype="int8", quant=quant, data=data)


def _int8_op(op: Op, moved: Op, tensors: dict[str, Tensor]) -> Op:
    """Return an int8 op whose output bytes are those of `op` minus 128; `moved` has the names of the int8 tensors."""
    spec = spec_of(op)
    if spec.sums_windows:
        moved = _centred_weights(moved, tensors)
    if spec.uint8 == "unsigned":
        return replace(moved, attrs={**op.attrs, "unsigned": True})
    if spec.uint8 == "same" or spec.moves or op.kind == UNSUPPORTED:
        return moved
    raise CompileError("is not supported for uint8, which LiteRT rounds differently", "quantise the model to int8", op=op)


def _centred_weights(op: Op, tensors: dict[str, Tensor]) -> Op:
    """Return the op with int8 weights of zero point 0, added to `tensors`; unchanged if per channel or out of range."""
    name = op.inputs[1] if len(op.inputs) > 1 else None
    weights = tensors[name] if name is not None else None
    if weights is None or weights.data is None or weights.quant is None or weights.quant.axis is not None:
        return op
    distances = weights.data.astype(np.int16) - weights.quant.zero_point[0]
    if weights.quant.zero_point[0] == 0 or distances.size == 0 or distances.min() < -128 or distances.max() > 127:
        return op
    centred = unused(f"{name}_centred", tensors)
    tensors[centred] = replace(
        weights, name=centred, data=distances.astype(np.int8), quant=replace(weights.quant, zero_point=(0,))
    )
    return replace(op, inputs=(op.inputs[0], centred, *op.inputs[2:]))
