"""The int8 graph of a model that was quantised elsewhere and brings its scales with it.

In: a float Graph in which activations may have a scale (`Tensor.quant`), and constants may be integers. Out: a checked int8
Graph in TFLite's scheme: those integers, those scales. Where an op demands another scale (a softmax 1/256) it has that; where
it demands one for all that it reads and makes, a quantize stands between. A scale that is missing follows from its
neighbours': that of what is only moved, or the range that is possible, or of use to all that read it (behind a hard swish all
below -3 is 0). Where neither ends, the ops are named and refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError, Graph, Op, Quant, Tensor, rebuild, verify
from ..ops import SPECS, check
from ..ops.float32 import LIMITS, REFERENCES
from ..passes.rewrite import each_op, integers, maker, same_kind, without
from .convert import affine, broadcast, constant_bias, interval, to_int8
from .prepare import pool_to_mean, real_weights
from .rules import RULES, Groups, check_rules, data_inputs, groups, is_number, least_scales

Range = tuple[float, float]
ALL: Range = (-inf, inf)
AVERAGING = ("average_pool_2d", "resize_bilinear")  # tied kinds that make numbers between those that they read
# what a function of one element can give
IMAGES: Mapping[str, Range] = {
    "elu": (-1.0, inf),
    "gelu": (-0.1701, inf),
    "hard_swish": (-0.375, inf),
    "logistic": (0.0, 1.0),
    "relu": (0.0, inf),
    "relu6": (0.0, 6.0),
    "relu_n1_to_1": (-1.0, 1.0),
    "rsqrt": (0.0, inf),
    "tanh": (-1.0, 1.0),
}
# from the range of what it gives to that of what it must be told apart in: the rest gives the same, to half a step
USEFUL: Mapping[str, Callable[[float, float], Range]] = {
    "hard_swish": lambda low, high: (-3.0, max(high, 3.0)),
    "logistic": lambda low, high: (-6.25, 6.25),
    "relu": lambda low, high: (0.0, high),
    "relu6": lambda low, high: (0.0, min(high, 6.0)),
    "relu_n1_to_1": lambda low, high: (max(low, -1.0), min(high, 1.0)),
    "tanh": lambda low, high: (-3.5, 3.5),
}


def with_given_scales(graph: Graph) -> Graph:
    """Return the int8 graph; raise CompileError for ops without a rule, and for all at once whose scale nothing says."""
    integer = {t.name: t for t in graph.tensors.values() if t.data is not None and t.quant is not None}
    graph = each_op(real_weights(graph), pool_to_mean)
    check_rules(graph)
    for op in graph.ops:
        if RULES[op.kind].recurrent:
            raise CompileError("keeps a state for which the file has no scale", "give the float model and quantise that", op=op)
    given = {t.name: t.quant for t in graph.tensors.values() if t.quant is not None and is_number(t)}
    graph = replace(graph, tensors={name: replace(t, quant=None) for name, t in graph.tensors.items()})
    check(verify(graph))
    quants = _completed(graph, given)
    graph, quants, requantised = _reconciled(graph, quants)
    small = to_int8(graph, Groups({name: name for name in quants}, requantised=requantised), quants)
    return check(verify(each_op(_with_integers(graph, small, integer), _without_copy)))


def _completed(graph: Graph, given: Mapping[str, Quant]) -> dict[str, Quant]:
    """Return a scale for every activation."""
    fixed = [(op, RULES[op.kind].fixed) for op in graph.ops]
    quants = dict(given) | {name: quant for op, quant in fixed if quant is not None for name in op.outputs}
    for op in graph.ops:
        _hand_on(graph, op, quants, forwards=True)
    for op in reversed(graph.ops):
        _hand_on(graph, op, quants, forwards=False)
    found = groups(graph)
    least = least_scales(graph, found)
    open_ranges = {name: ends for name, ends in _ranges(graph, quants).items() if name not in quants}
    lacking = [name for name, ends in open_ranges.items() if not np.isfinite(ends).all()]
    if lacking:
        makers = [graph.ops[graph.producer[name]] for name in lacking if name in graph.producer]
        told = ", ".join(f"'{name}'" for name in lacking[:5]) + (f" and {len(lacking) - 5} more" if len(lacking) > 5 else "")
        kinds = ", ".join(sorted({op.kind for op in makers}))
        raise CompileError(
            f"the model was quantised without a scale for {told}" + (f", made by {kinds}" if kinds else ""),
            "its neighbours do not say one; quantise these tensors as well, or give the float model",
        )
    return quants | {name: affine(*ends, least_scale=least[found.group(name)]) for name, ends in open_ranges.items()}


def _hand_on(graph: Graph, op: Op, quants: dict[str, Quant], *, forwards: bool) -> None:
    """Give the one scale of what an op moves to what it makes, or the other way round."""
    sources = [name for _, name in data_inputs(graph, op)]
    if not RULES[op.kind].tied or len(sources) != 1 or (op.kind in AVERAGING and not forwards):
        return
    outputs = [name for name in op.outputs if is_number(graph.tensors[name])]
    for known in sources if forwards else outputs:
        for name in outputs if forwards else sources:
            if known in quants:
                quants.setdefault(name, quants[known])


def _ranges(graph: Graph, quants: Mapping[str, Quant]) -> dict[str, Range]:
    """Return for each activation the numbers that are possible and of use."""
    possible = {name: interval(quants[name]) if name in quants else ALL for name in graph.inputs}
    for op in graph.ops:
        for name in op.outputs:
            if is_number(graph.tensors[name]):
                possible[name] = interval(quants[name]) if name in quants else _possible(graph, op, possible)
    wanted: dict[str, list[Range]] = {name: [ALL] for name in graph.outputs if name in possible}
    useful: dict[str, Range] = {}

    def settle(name: str) -> None:
        useful[name] = interval(quants[name]) if name in quants else _hull(wanted.get(name, [(0.0, 0.0)]))

    for op in reversed(graph.ops):
        for name in op.outputs:
            if name in possible:
                settle(name)
        for _, name in data_inputs(graph, op):
            wanted.setdefault(name, []).append(_useful(graph, op, name, useful))
    for name in set(graph.inputs) & set(possible):
        settle(name)
    narrowed = {name: (max(ends[0], useful[name][0]), min(ends[1], useful[name][1])) for name, ends in possible.items()}
    return {name: ends if ends[0] < ends[1] else possible[name] for name, ends in narrowed.items()}


def _possible(graph: Graph, op: Op, known: Mapping[str, Range]) -> Range:
    """Return the numbers that an op may make of those it reads."""
    operands = [
        known.get(t.name, ALL) if t.data is None else _extremes(t.data)
        for t in graph.inputs_of(op)
        if t is not None and is_number(t)
    ] or [ALL]
    if op.kind in IMAGES:
        low, high = IMAGES[op.kind]
        if np.isfinite(operands[0]).all():
            made = REFERENCES[op.kind](graph, op, [np.linspace(*operands[0], 1001, dtype=np.float32)])[0]
            return max(low, float(made.min())), min(high, float(made.max()))
        return low, high
    one, two = operands[0], operands[-1]
    if op.kind in ("add", "sub"):
        low, high = (one[0] + two[0], one[1] + two[1]) if op.kind == "add" else (one[0] - two[1], one[1] - two[0])
    elif op.kind in ("mul", "prelu", "leaky_relu"):
        factors = (op.attrs["alpha"],) if op.kind == "leaky_relu" else two
        products = [x * y if x and y else 0.0 for x in one for y in factors]
        products += one if op.kind != "mul" else ()
        low, high = min(products), max(products)
    elif op.kind == "mean" or RULES[op.kind].tied:
        low, high = _hull(operands)
    else:
        low, high = ALL
    least, most = LIMITS[op.attrs.get("activation", "none")]
    return max(low, least), min(high, most)


def _useful(graph: Graph, op: Op, name: str, useful: Mapping[str, Range]) -> Range:
    """Return between which of an input's numbers an op must be able to tell, for what is of use of what it makes."""
    wanted = [useful[out] for out in op.outputs if out in useful]
    if not wanted:
        return ALL
    low, high = wanted[0]
    if op.kind in USEFUL:
        return USEFUL[op.kind](low, high)
    if RULES[op.kind].tied and op.kind not in AVERAGING:
        return _hull(wanted)
    if op.kind not in ("add", "sub", "mul") or not np.isfinite((low, high)).all():
        return ALL
    least, most = LIMITS[op.attrs["activation"]]
    low, high = max(low, least), min(high, most)
    others = [t for t in graph.inputs_of(op) if t is not None and t.name != name]
    if len(others) != 1:
        return ALL
    if op.kind == "mul" and _gates(graph, others[0], name):  # x * logistic(x): from -8 on nearly 0, and nearly x
        return -8.0, high + 0.3
    if others[0].data is None:
        return ALL
    values = others[0].data.astype(np.float64).ravel()
    given = values[values != 0] if op.kind == "mul" else values
    first = np.add if op.inputs[0] == name else lambda end, values: values - end
    inverse = {"add": np.subtract, "mul": np.divide, "sub": first}[op.kind]
    ends = np.concatenate([inverse(low, given), inverse(high, given)])
    return float(ends.min(initial=0)), float(ends.max(initial=0))


def _gates(graph: Graph, gate: Tensor, name: str) -> bool:
    op = maker(graph, gate)
    return op is not None and op.kind == "logistic" and op.inputs[0] == name


def _hull(ranges: Sequence[Range]) -> Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _extremes(values: NDArray[Any]) -> Range:
    return (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)


def _reconciled(graph: Graph, quants: dict[str, Quant]) -> tuple[Graph, dict[str, Quant], dict[tuple[str, int], str]]:
    """Return the graph, the scales, and which inputs need another scale, so that tied ops have one.

    What an op with one input makes is rescaled behind it where that is smaller, by a reshape to its own shape.
    """
    for op in graph.ops:
        outputs = [name for name in op.outputs if name in quants]
        sources = [name for _, name in data_inputs(graph, op)]
        if not RULES[op.kind].tied or not outputs or not sources:
            continue
        if len(outputs) > 1:
            quants.update(dict.fromkeys(outputs, quants[sources[0]]))
        (out, *_), source = outputs, sources[0]
        is_smaller = graph.tensors[out].elements <= graph.tensors[source].elements
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
        for index, name in data_inputs(graph, op):
            if RULES[op.kind].tied and outputs and quants[name] != quants[outputs[0]]:
                requantised[op.name, index] = copied = f"{name}.for_{op.name}_{index}"
                quants[copied] = quants[outputs[0]]
    return graph, quants, requantised


def _with_integers(graph: Graph, small: Graph, integer: Mapping[str, Tensor]) -> Graph:
    """Return the int8 graph with the integers that the model brought for its constants, exactly."""
    tensors = dict(small.tensors)
    before = {op.name: op for op in graph.ops}
    for op in small.ops:
        names = before[op.name].inputs if op.name in before else ()
        rule = RULES.get(op.kind)
        if rule is None or rule.tied:
            continue
        for index, name in enumerate(names):
            brought, now = integer.get(name or ""), tensors[op.inputs[index] or ""] if op.inputs[index] else None
            if brought is None or now is None or brought.dtype != "int8":
                continue
            if rule.weights is None:
                tensors[now.name] = replace(brought, name=now.name)
            elif index == 1:
                weights = _per_channel(brought, op, rule.weights)
                tensors[now.name] = replace(weights, name=now.name)
                bias, scales = tensors[op.inputs[rule.bias] or ""], np.array(weights.quant.scale if weights.quant else ())
                real = _real(integer.get(names[rule.bias] or "") or graph.tensors[names[rule.bias] or ""])
                x_scale = tensors[op.inputs[SPECS[op.kind].data] or ""].scale
                tensors[bias.name] = constant_bias(bias.name, real, x_scale, scales)
    return replace(small, tensors=tensors)


def _per_channel(weights: Tensor, op: Op, axis: int) -> Tensor:
    """Return weights with zero point 0 and a scale for each output channel."""
    quant, count = weights.quant, weights.shape[axis]
    assert quant is not None and weights.data is not None
    if quant.axis not in (None, axis):
        raise CompileError(f"has scales along axis {quant.axis}", "TFLite has one per output channel", op=op, tensor=weights)
    centred = weights.data.astype(np.int32) - broadcast(quant, weights.data.ndim)[1].astype(np.int32)
    if centred.size and not -128 <= centred.min() <= centred.max() <= 127:
        raise CompileError(
            f"has the zero point {quant.zero_point[0]}, from which weights are more than 8 bits away",
            "quantise weights symmetrically, as TFLite has them",
            op=op,
            tensor=weights,
        )
    scales = quant.scale if quant.axis is not None else quant.scale * count
    return replace(weights, data=centred.astype(np.int8), quant=Quant(scales, (0,) * count, axis))


def _real(tensor: Tensor) -> NDArray[np.float64]:
    assert tensor.data is not None
    if tensor.quant is None:
        return tensor.data.astype(np.float64)
    scale, zero = broadcast(tensor.quant, tensor.data.ndim)
    return np.asarray((tensor.data.astype(np.float64) - zero) * scale)


def _without_copy(graph: Graph, op: Op) -> Graph:
    """Remove a reshape that changes nothing."""
    if op.kind != "reshape" or not same_kind(graph.input(op), graph.output(op)):
        return graph
    return without(graph, op, op.inputs[0] or "")
