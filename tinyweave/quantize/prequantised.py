"""Convert a model that another tool has quantised to TFLite's int8 scheme; its scales and integers are kept.

The model is a float graph in which activations may have a scale (`Tensor.quant`) and constants may be integers. A `quantize` op
converts where an op kind demands one scale for all its tensors. A missing scale is copied through moves, or computed from the
range that the ops before can produce and the range that the ops after can distinguish (hard swish maps all below -3 to 0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError, Graph, Op, Quant, Tensor, rebuild, verify
from ..ops import SPECS, check, spec_of
from ..ops.spec import ACTIVATIONS
from ..passes.rewrite import each_op, integers, maker, same_kind, without
from .convert import affine, broadcast, interval, quantised_bias, to_int8
from .scale_groups import ScaleGroups, check_quantisable, float_inputs, is_float, least_scales, output_quant, scale_groups
from .simplify_float import float_weights, pool_to_mean

Range = tuple[float, float]
ALL: Range = (-inf, inf)


def from_prequantised(graph: Graph) -> Graph:
    """Return the int8 graph of a model that another tool has quantised; raise CompileError if a scale cannot be inferred."""
    integers_of = {t.name: t for t in graph.tensors.values() if t.data is not None and t.quant is not None}
    graph = each_op(float_weights(graph), pool_to_mean)
    check_quantisable(graph)
    for op in graph.ops:
        if SPECS[op.kind].family == "recurrent":
            raise CompileError("keeps a state for which the file has no scale", "give the float model and quantise that", op=op)
    known = {t.name: t.quant for t in graph.tensors.values() if t.quant is not None and is_float(t)}
    graph = replace(graph, tensors={name: replace(t, quant=None) if is_float(t) else t for name, t in graph.tensors.items()})
    check(verify(graph))
    quants = _completed_scales(graph, known)
    graph, quants, requantised = _reconciled(graph, quants)
    small = to_int8(graph, ScaleGroups({name: name for name in quants}, requantised=requantised), quants)
    return check(verify(each_op(_with_own_integers(graph, small, integers_of), _without_copy)))


def _completed_scales(graph: Graph, known: Mapping[str, Quant]) -> dict[str, Quant]:
    """Return tensor name -> scale for every activation: its scale in `known`, or an inferred scale."""
    fixed = [(op, output_quant(graph, op)) for op in graph.ops]
    quants = dict(known) | {name: quant for op, quant in fixed if quant is not None for name in op.outputs}
    for op in graph.ops:
        _propagate_scale(graph, op, quants, forwards=True)
    for op in reversed(graph.ops):
        _propagate_scale(graph, op, quants, forwards=False)
    groups = scale_groups(graph)
    least = least_scales(graph, groups)
    inferred = {name: ends for name, ends in _ranges(graph, quants).items() if name not in quants}
    lacking = [name for name, ends in inferred.items() if not np.isfinite(ends).all()]
    if lacking:
        makers = [graph.ops[graph.producer[name]] for name in lacking if name in graph.producer]
        names = ", ".join(f"'{name}'" for name in lacking[:5]) + (f" and {len(lacking) - 5} more" if len(lacking) > 5 else "")
        kinds = ", ".join(sorted({op.kind for op in makers}))
        if {*lacking} <= {*graph.outputs}:
            raise CompileError(
                f"the model was quantised without a scale for its output{'s' * (len(lacking) > 1)} {names}, made by {kinds}",
                "int8 networks have int8 outputs: quantise and dequantise each output with a scale, or give the float model",
            )
        raise CompileError(
            f"the model was quantised without a scale for {names}" + (f", made by {kinds}" if kinds else ""),
            "it cannot be inferred from its neighbours; quantise these tensors as well, or give the float model",
        )
    return quants | {name: affine(*ends, least_scale=least[groups.group(name)]) for name, ends in inferred.items()}


def _propagate_scale(graph: Graph, op: Op, quants: dict[str, Quant], *, forwards: bool) -> None:
    """Copy a known scale through `op`, forwards or backwards, if its tensors share one and it has one input."""
    sources = [name for _, name in float_inputs(graph, op)]
    spec = SPECS[op.kind]
    if not spec.shares_scale or len(sources) != 1 or (spec.averages and not forwards):
        return
    outputs = [name for name in op.outputs if is_float(graph.tensors[name])]
    for known in sources if forwards else outputs:
        for name in outputs if forwards else sources:
            if known in quants:
                quants.setdefault(name, quants[known])


def _ranges(graph: Graph, quants: Mapping[str, Quant]) -> dict[str, Range]:
    """Return the range of each activation (its scale's if known) cut to what later ops can distinguish; it may be infinite."""
    inputs = [name for name in graph.inputs if is_float(graph.tensors[name])]
    possible = {name: interval(quants[name]) if name in quants else ALL for name in inputs}
    for op in graph.ops:
        for name in op.outputs:
            if is_float(graph.tensors[name]):
                possible[name] = interval(quants[name]) if name in quants else _output_range(graph, op, possible)
    needed: dict[str, list[Range]] = {name: [ALL] for name in graph.outputs if name in possible}
    useful: dict[str, Range] = {}

    def settle(name: str) -> None:
        useful[name] = interval(quants[name]) if name in quants else _hull(needed.get(name, [(0.0, 0.0)]))

    for op in reversed(graph.ops):
        for name in op.outputs:
            if name in possible:
                settle(name)
        for _, name in float_inputs(graph, op):
            needed.setdefault(name, []).append(_input_range(graph, op, name, useful))
    for name in inputs:
        settle(name)
    narrowed = {name: (max(ends[0], useful[name][0]), min(ends[1], useful[name][1])) for name, ends in possible.items()}
    return {name: ends if ends[0] < ends[1] else possible[name] for name, ends in narrowed.items()}


def _output_range(graph: Graph, op: Op, known: Mapping[str, Range]) -> Range:
    """Return the range of real values of an op's output from the ranges of its inputs in `known`, infinite if missing."""
    operands = [
        known.get(t.name, ALL) if t.data is None else (float(t.data.min()), float(t.data.max())) if t.data.size else (0.0, 0.0)
        for t in graph.inputs_of(op)
        if t is not None and is_float(t)
    ] or [ALL]
    spec = SPECS[op.kind]
    if spec.image is not None:
        low, high = spec.image
        if spec.real is not None and np.isfinite(operands[0]).all():
            points = np.append(np.linspace(*operands[0], 1001), np.clip(0, *operands[0]))  # 1 / 0 has no scale
            with np.errstate(all="ignore"):
                made = spec.real(graph, op, [points.astype(np.float32)])[0]
            return max(low, float(made.min())), min(high, float(made.max()))
        return low, high
    one, two = operands[0], operands[-1]
    if spec.arithmetic == "sum":
        low, high = (one[0] + two[0], one[1] + two[1]) if op.kind == "add" else (one[0] - two[1], one[1] - two[0])
    elif spec.arithmetic == "product" or op.kind == "prelu" or "alpha" in op.attrs:
        factors = (op.attrs["alpha"],) if op.kind == "leaky_relu" else two
        products = [x * y if x and y else 0.0 for x in one for y in factors]
        products += one if op.kind != "mul" else ()
        low, high = min(products), max(products)
    elif op.kind == "mean" or spec.shares_scale:
        low, high = _hull(operands)
    else:
        low, high = ALL
    least, most = ACTIVATIONS[op.attrs.get("activation", "none")]
    return max(low, least), min(high, most)


def _input_range(graph: Graph, op: Op, name: str, useful: Mapping[str, Range]) -> Range:
    """Return the range of an input in which a change can matter for the `useful` ranges of the op's outputs; ALL if unknown."""
    outputs = [useful[out] for out in op.outputs if out in useful]
    if not outputs:
        return ALL
    low, high = outputs[0]
    spec = SPECS[op.kind]
    if spec.useful is not None:
        return spec.useful(low, high)
    if spec.shares_scale and not spec.averages:
        return _hull(outputs)
    if spec.family != "binary" or spec.arithmetic is None or not np.isfinite((low, high)).all():
        return ALL
    least, most = ACTIVATIONS[op.attrs["activation"]]
    low, high = max(low, least), min(high, most)
    others = [t for t in graph.inputs_of(op) if t is not None and t.name != name]
    if len(others) != 1:
        return ALL
    if op.kind == "mul" and _gates(graph, others[0], name):  # x * logistic(x): almost 0 below -8, and almost x above 0
        return -8.0, high + 0.3
    if others[0].data is None:
        return ALL
    values = others[0].data.astype(np.float64).ravel()
    operand = values[values != 0] if op.kind == "mul" else values
    first = np.add if op.inputs[0] == name else lambda end, values: values - end
    inverse = {"add": np.subtract, "mul": np.divide, "sub": first}[op.kind]
    ends = np.concatenate([inverse(low, operand), inverse(high, operand)])
    return float(ends.min(initial=0)), float(ends.max(initial=0))


def _gates(graph: Graph, gate: Tensor, name: str) -> bool:
    """Return whether the tensor `gate` is logistic(x), the sigmoid of the tensor x called `name`."""
    op = maker(graph, gate)
    return op is not None and op.kind == "logistic" and op.inputs[0] == name


def _hull(ranges: Sequence[Range]) -> Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _reconciled(graph: Graph, quants: dict[str, Quant]) -> tuple[Graph, dict[str, Quant], dict[tuple[str, int], str]]:
    """Give all tensors of an op one scale if its kind demands it; return graph, scales, (op, input index) -> copy it reads.

    If the op has one input, whose scale covers its constants, and an output that is no larger, it computes with the input's
    scale, and its output is rescaled afterwards by a reshape that reads a requantised copy. Otherwise the op reads requantised
    copies of its inputs.
    """
    for op in graph.ops:
        outputs = [name for name in op.outputs if name in quants]
        sources = [name for _, name in float_inputs(graph, op)]
        if not SPECS[op.kind].shares_scale or not outputs or not sources:
            continue
        if len(outputs) > 1:
            quants.update(dict.fromkeys(outputs, quants[sources[0]]))
        (out, *_), source = outputs, sources[0]
        is_smaller = graph.tensors[out].elements <= graph.tensors[source].elements
        values = [t.data for t in graph.inputs_of(op) if t is not None and t.data is not None and is_float(t)]
        low, high = interval(quants[source])
        is_smaller &= all(low <= each.min() and each.max() <= high for each in values if each.size)
        if len(sources) == 1 and quants[source] != quants[out] and is_smaller and not SPECS[op.kind].view:
            inner = replace(graph.tensors[out], name=f"{out}.of_{op.name}")
            shape = integers(graph, op, "shape", inner.shape)
            copy = Op(f"{op.name}_rescaled", "reshape", (inner.name, shape.name), (out,), {"new_shape": inner.shape})
            place = graph.ops.index(op) + 1
            quants[inner.name] = quants[source]
            tensors = {**graph.tensors, shape.name: shape, inner.name: inner}
            ops = (*graph.ops[: place - 1], replace(op, outputs=(inner.name,)), copy, *graph.ops[place:])
            graph = rebuild(graph, tensors=tensors, ops=ops)
    requantised = {}
    for op in graph.ops:
        outputs = [name for name in op.outputs if name in quants]
        for index, name in float_inputs(graph, op):
            if SPECS[op.kind].shares_scale and outputs and quants[name] != quants[outputs[0]]:
                requantised[op.name, index] = copied = f"{name}.for_{op.name}_{index}"
                quants[copied] = quants[outputs[0]]
    return graph, quants, requantised


def _with_own_integers(graph: Graph, small: Graph, integers_of: Mapping[str, Tensor]) -> Graph:
    """Return `small` with the int8 constants of the file in place of those that lost precision by dequantisation."""
    tensors = dict(small.tensors)
    before = {op.name: op for op in graph.ops}
    for op in small.ops:
        names = before[op.name].inputs if op.name in before else ()
        spec = spec_of(op)
        if spec.scale is None or spec.shares_scale:
            continue
        for index, name in enumerate(names):
            own, now = integers_of.get(name or ""), tensors[op.inputs[index] or ""] if op.inputs[index] else None
            if own is None or now is None or own.dtype != "int8":
                continue
            if spec.weights is None:
                tensors[now.name] = replace(own, name=now.name)
            elif index == 1:
                weights = _per_channel(own, op, spec.weights.axis)
                tensors[now.name] = replace(weights, name=now.name)
                place = spec.weights.bias
                bias, scales = tensors[op.inputs[place] or ""], np.array(weights.quant.scale if weights.quant else ())
                real = _dequantised(integers_of.get(names[place] or "") or graph.tensors[names[place] or ""])
                x_scale = tensors[op.inputs[spec.data] or ""].scale
                tensors[bias.name] = quantised_bias(bias.name, real, x_scale, scales)
    return replace(small, tensors=tensors)


def _per_channel(weights: Tensor, op: Op, axis: int) -> Tensor:
    """Return int8 weights with zero point 0 and a scale per output channel (along `axis`), or raise CompileError."""
    quant, count = weights.quant, weights.shape[axis]
    assert quant is not None and weights.data is not None
    if quant.axis not in (None, axis):
        raise CompileError(f"has scales along axis {quant.axis}", "TFLite has one per output channel", op=op, tensor=weights)
    centred = weights.data.astype(np.int32) - broadcast(quant, weights.data.ndim)[1].astype(np.int32)
    if centred.size and not -128 <= centred.min() <= centred.max() <= 127:
        raise CompileError(
            f"has the zero point {quant.zero_point[0]}, from which some weights differ by more than 8 bits",
            "quantise weights symmetrically, as TFLite has them",
            op=op,
            tensor=weights,
        )
    scales = quant.scale if quant.axis is not None else quant.scale * count
    return replace(weights, data=centred.astype(np.int8), quant=Quant(scales, (0,) * count, axis))


def _dequantised(tensor: Tensor) -> NDArray[np.float64]:
    assert tensor.data is not None
    if tensor.quant is None:
        return tensor.data.astype(np.float64)
    scale, zero = broadcast(tensor.quant, tensor.data.ndim)
    return np.asarray((tensor.data.astype(np.float64) - zero) * scale)


def _without_copy(graph: Graph, op: Op) -> Graph:
    if spec_of(op).family not in ("view", "conversion") or not same_kind(graph.input(op), graph.output(op)):
        return graph
    return without(graph, op, op.inputs[0] or "")
