"""Generated graphs of one op with inputs, many per kind, for every implementation of an op to be compared on.

`cases(kind)` gives the same cases on every call: attributes, shapes, scales and values come from a generator seeded by the
kind's name. Each list of arrays in `Case.inputs` is one inference; where there is state they follow on each other.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinyweave.ir import CompileError, Graph, Op, Quant, Tensor, verify
from tinyweave.ops import SPECS, check, run

from .draw import ACTIVATIONS, Array, Drawn, DrawnGraph, Rng, activation, constant, integers, rescaled, scale, single_op, text
from .weighted import batch_matmul, conv_2d, depthwise_conv_2d, fully_connected, lstm, transpose_conv, windowed


@dataclass(frozen=True)
class Case:
    id: str
    graph: Graph
    inputs: list[list[Array]]


def cases(kind: str) -> Iterator[Case]:
    """The cases of one kind, named `<kind>-<number>-<what it is about>`."""
    rng = np.random.default_rng(zlib.crc32(kind.encode()))
    for number, (about, *drawn) in enumerate(GENERATORS[kind](rng)):
        graph = drawn[0] if len(drawn) == 1 else single_op(kind, *drawn)
        styles = ("any", "extreme", "any", "extreme") if graph.init else ("any", "extreme")
        yield Case(f"{kind}-{number}-{about}", graph, [_values(graph, rng, style) for style in styles])


INT4 = "int4_"  # before a kind: its cases with int4 maps and weights
INT4_KINDS = tuple(kind for kind, spec in SPECS.items() if spec.int4)


UINT8 = "uint8_"  # before a kind: its cases as `shift_uint8` leaves them, weights with a zero point
UINT8_KINDS = ("conv_2d", "depthwise_conv_2d", "fully_connected", "average_pool_2d", "resize_bilinear")
ZERO_POINTS = (-3, 5, -20, 1, 40, -128, 127)


def all_cases(kind: str) -> Iterator[Case]:
    """Return the cases of a kind. With `INT4` or `UINT8` before it, they are such as no LiteRT file can hold."""
    if kind.startswith(INT4):
        return int4_cases(kind.removeprefix(INT4))
    return uint8_cases(kind.removeprefix(UINT8)) if kind.startswith(UINT8) else cases(kind)


def uint8_cases(kind: str) -> Iterator[Case]:
    """Every third case on int8 maps and with int8 weights, as an op that was on uint8 ones."""
    signed = (case for case in cases(kind) if {x.dtype for x in case.graph.tensors.values()} <= {"int8", "int32"})
    for number, case in enumerate(itertools.islice(signed, 0, None, 3)):
        (op,), tensors = case.graph.ops, dict(case.graph.tensors)
        weights = tensors.get("weights")
        if weights is not None and weights.quant is not None:
            zero = ZERO_POINTS[number % len(ZERO_POINTS)]
            tensors["weights"] = replace(weights, quant=Quant((max(weights.quant.scale),), (zero,)))
        graph = replace(case.graph, tensors=tensors, ops=(replace(op, attrs={**op.attrs, "unsigned": True}),))
        graph = graph if weights is None else fitted(graph)
        yield Case(f"{UINT8}{case.id}", check(verify(graph)), case.inputs)


def fitted(graph: Graph) -> Graph:
    """With an output that takes many values: its scale and zero point suit what some inputs give."""
    (name,), (op,), rng = graph.outputs, graph.ops, np.random.default_rng(0)
    out = graph.tensors[name]
    inputs = [{n: rng.integers(-128, 128, graph.tensors[n].shape, np.int8) for n in graph.inputs} for _ in range(4)]
    plain = replace(graph, ops=(replace(op, attrs={**op.attrs, "activation": "none"}),))
    for factor in (1, 8, 64, 512, 4096):
        coarse = replace(out, quant=Quant((float(np.float32(out.scale * factor)),), (0,)))
        wide = replace(plain, tensors={**graph.tensors, name: coarse})
        values = np.stack([run(wide, arrays)[name] for arrays in inputs]).astype(int)
        if values.min() > -128 and values.max() < 127:
            break
    low, high = min(values.min(), 0), max(values.max(), 0)
    step = float(np.float32(coarse.scale * (high - low + 1) / 200))
    zero = int(np.clip(-100 - low * coarse.scale / step, -128, 127))
    return replace(graph, tensors={**graph.tensors, name: replace(out, quant=Quant((step,), (zero,)))})


def int4_cases(kind: str) -> Iterator[Case]:
    """The cases on int8 maps that can be on int4 ones, each number a sixteenth; quantize has int4 on one side only."""
    for number, case in enumerate(cases(kind)):
        graph, op = case.graph, case.graph.ops[0]
        if any(t.dtype == "int4" or (t.data is None and t.dtype != "int8") for t in graph.tensors.values()):
            continue
        kept = (op.outputs, op.inputs)[number % 2] if kind == "quantize" else ()
        tensors = {n: t if n in kept or t.dtype not in ("int8", "int32") else narrowed(t) for n, t in graph.tensors.items()}
        narrow = replace(graph, tensors=tensors)
        try:
            check(verify(narrow))
        except CompileError:
            continue
        divisors = [16 if tensors[name].dtype == "int4" else 1 for name in graph.inputs]
        inputs = [[x // np.int8(by) for x, by in zip(arrays, divisors, strict=True)] for arrays in case.inputs]
        yield Case(f"{INT4}{case.id}", narrow, inputs)


def narrowed(tensor: Tensor) -> Tensor:
    """As int4, or a bias for that: about the same real numbers; a shape as it is."""
    quant, by = tensor.quant, 16 if tensor.dtype == "int8" else 256
    if quant is None:
        return tensor
    if tensor.data is not None and tensor.dtype == "int8" and -8 <= tensor.data.min() <= tensor.data.max() <= 7:
        return replace(tensor, dtype="int4")
    scales, zeros = tuple(scale * by for scale in quant.scale), tuple(zero // by for zero in quant.zero_point)
    data = None if tensor.data is None else tensor.data // np.array(by, tensor.dtype)
    dtype = "int4" if tensor.dtype == "int8" else tensor.dtype
    return replace(tensor, dtype=dtype, quant=replace(quant, scale=scales, zero_point=zeros), data=data)


def _values(graph: Graph, rng: Rng, style: str) -> list[Array]:
    """One array per graph input: any values of the type, or only values at the ends of its range."""
    arrays = []
    for tensor in (graph.tensors[name] for name in graph.inputs):
        if tensor.dtype == "float32":
            out = graph.tensors[graph.outputs[0]]
            step = (out.scale if out.quant else 1.0) * (1e6 if style == "extreme" else 1)
            steps = rng.uniform(-300, 300, tensor.shape)
            # every other element lies in the middle between two quantised values
            halves = np.where(np.arange(tensor.elements).reshape(tensor.shape) % 2, np.floor(steps) + 0.5, steps)
            arrays.append(np.float32(step) * halves.astype(np.float32))
            continue
        info = np.iinfo(tensor.dtype)
        if tensor.name == "indices":
            arrays.append(rng.integers(0, 2, tensor.shape, tensor.dtype))
        elif style == "any":
            arrays.append(rng.integers(info.min, info.max, tensor.shape, tensor.dtype, endpoint=True))
        else:
            arrays.append(rng.choice(np.array([info.min, info.max], tensor.dtype), tensor.shape))
    return arrays


SHAPE_PAIRS = (
    ((1, 4, 5, 3), (1, 4, 5, 3)),
    ((1, 4, 5, 3), (1, 1, 1, 3)),
    ((1, 1, 1, 3), (1, 4, 5, 3)),
    ((1, 4, 5, 3), (1, 4, 1, 3)),
    ((1, 4, 1, 3), (1, 1, 5, 1)),
    ((1, 4, 5, 3), (3,)),
    ((5, 1), (1, 4, 5, 3)),
    ((7, 6), (7, 6)),
    ((300,), (300,)),
    ((4, 5), (1,)),
    ((2, 1, 3, 1, 2), (2, 4, 1, 3, 2)),
)
FOUR_AXES = (2, 1, 5, 1), (1, 4, 1, 3)  # none of them can be joined with the next one


def _add(rng: Rng) -> Iterator[Drawn]:
    for number in range(88):
        first, second = SHAPE_PAIRS[number % len(SHAPE_PAIRS)]
        a, b, out = activation("a", first, rng), activation("b", second, rng), activation("output", (), rng)
        if number % 3 == 0:
            out = rescaled(out, max(a.scale, b.scale) * rng.uniform(0.5, 3))
        if number % 3 == 1:  # the results fall in the middle between two values
            a, b, out = rescaled(a, 0.25), rescaled(b, 0.125), rescaled(out, 0.5)
        if number % 5 == 1:
            assert b.quant is not None
            b = constant("b", rng.integers(-128, 128, second).astype(np.int8), b.quant)
        if number % 11 == 7:
            b = a
        yield f"{text(a.shape)}-{text(b.shape)}", [a, b], out, {"activation": str(rng.choice(ACTIVATIONS))}


def _sum(rng: Rng) -> Iterator[Drawn]:
    yield from _add(rng)
    for first, second in (*SHAPE_PAIRS, FOUR_AXES, FOUR_AXES[::-1]) * 3:
        a, b, out = (
            activation(name, shape, rng, dtype="int16") for name, shape in (("a", first), ("b", second), ("output", ()))
        )
        if rng.integers(2):
            out = rescaled(out, max(a.scale, b.scale) * rng.uniform(0.5, 3))
        yield f"{text(first)}-{text(second)}-int16", [a, b], out, {"activation": str(rng.choice(ACTIVATIONS))}


def _mul(rng: Rng) -> Iterator[Drawn]:
    for about, (a, b), out, attrs in _add(rng):
        assert a is not None and b is not None
        factor = 2.0 ** rng.integers(0, 7) if rng.integers(3) == 0 else np.exp(rng.uniform(-1, 6))
        yield about, [a, b], rescaled(out, a.scale * b.scale * factor), attrs


def _pool(rng: Rng) -> Iterator[Drawn]:
    for number in range(100):
        size, attrs, about = windowed(rng, dilated=False)
        attrs.pop("_kernel")
        x = activation("input", (2 if number % 8 == 5 else 1, *size, int(rng.choice([1, 2, 3, 8, 17]))), rng)
        yield about, [x], activation("output", (), rng, quant=x.quant), attrs


def _mean(rng: Rng) -> Iterator[Drawn]:
    chosen = [((1, 7, 7, 12), a) for a in ((1, 2), (2, 1), (1,), (2,), (3,), (1, 2, 3), (-1,), (-3, -2), (0,), (1, 1, 2))]
    chosen += [
        ((1, 3, 5, 4), (1, 2)),
        ((1, 16, 16, 3), (1, 2)),
        ((6, 9), (1,)),
        ((6, 9), (0,)),
        ((5, 4, 3), (0, 2)),
        ((50,), (0,)),
    ]
    chosen += [((1, 1, 1, 8), (1, 2)), ((2, 3, 4, 5, 2), (1, 3))]
    for (shape, axes), keep, factor in itertools.product(chosen, (False, True), (1.0, None, None)):
        x, out = activation("input", shape, rng), activation("output", (), rng)
        out = replace(out, quant=x.quant) if factor else rescaled(out, x.scale * np.exp(rng.uniform(-2, 2)))
        about = f"{text(shape)}-over-{'.'.join(map(str, axes))}{'-kept' if keep else ''}"
        yield about, [x, integers("axes", *axes)], out, {"keep_dims": keep}


def _softmax(rng: Rng) -> Iterator[Drawn]:
    shapes = ((1, 2), (1, 10), (3, 7), (1, 1), (1, 4, 5, 3), (2, 3, 4), (12,), (1, 400), (1, 300))
    for shape, beta, in_scale in itertools.product(shapes, (1.0, 0.3, 2.0), (None, 1e-3, 1.5, 0.25)):
        x = activation("input", shape, rng)
        x = x if in_scale is None else rescaled(x, in_scale)
        out = activation("output", (), rng, quant=Quant((1 / 256,), (-128,)))
        yield f"{text(shape)}-beta{beta}-scale{x.scale:.3g}", [x], out, {"beta": float(np.float32(beta))}
    for shape in shapes:
        out = activation("output", (), rng, dtype="int16", quant=Quant((2.0**-16,), (-32768,)))
        yield f"{text(shape)}-to-int16", [activation("input", shape, rng)], out, {"beta": 1.0}


def _log_softmax(rng: Rng) -> Iterator[Drawn]:
    shapes = ((1, 2), (1, 10), (3, 7), (1, 1), (1, 4, 5, 3), (2, 3, 4), (12,), (1, 400), (1, 300))
    for shape, in_scale in itertools.product(shapes, (None, None, None, 1e-3, 0.05, 0.1, 1.5, 0.25)):
        x = activation("input", shape, rng)
        x = x if in_scale is None else rescaled(x, in_scale)
        yield f"{text(shape)}-scale{x.scale:.3g}", [x], activation("output", (), rng, quant=Quant((1 / 16,), (127,))), {}


def _relu(rng: Rng) -> Iterator[Drawn]:
    for number in range(40):
        x, out = activation("input", (1, 4, 5, 13), rng), activation("output", (), rng)
        if number % 2:
            out = rescaled(out, x.scale * (2.0 ** rng.integers(-1, 3) if number % 4 == 1 else rng.uniform(0.3, 1.5)))
        yield f"{x.scale:.3g}to{out.scale:.3g}", [x], out, {}


def _table(rng: Rng, out_quant: Quant | None = None) -> Iterator[Drawn]:
    for _ in range(60):
        x = activation("input", (1, 16, 32), rng)
        out = activation("output", (), rng, quant=out_quant)
        yield f"scale{x.scale:.3g}", [x], out, {}


def _gelu(rng: Rng) -> Iterator[Drawn]:
    for number, (about, operands, out, _) in enumerate(_table(rng)):
        yield f"{about}-{number % 2}", operands, out, {"approximate": bool(number % 2)}


def _quantize(rng: Rng) -> Iterator[Drawn]:
    pairs = [("float32", "int8"), ("float32", "uint8"), ("float32", "int16"), ("int8", "uint8"), ("uint8", "int8")]
    pairs += [("int8", "int8"), ("uint8", "uint8"), ("int16", "int8"), ("int16", "int16")]
    for source, target in pairs:
        for number in range(12):
            x, out = activation("input", (1, 8, 9, 3), rng, dtype=source), activation("output", (), rng, dtype=target)
            if number == 0 and {source, target} == {"int8", "uint8"}:  # the usual change of sign
                x = replace(x, quant=Quant((0.5,), (-128 if source == "int8" else 0,)))
                out = replace(out, quant=Quant((0.5,), (-128 if target == "int8" else 0,)))
            yield f"{source}to{target}", [x], out, {}
    for source, target in (("int32", "int16"), ("int32", "int8"), ("int16", "int32")):
        for _ in range(8):
            x, out = activation("input", (1, 8, 9, 3), rng, dtype=source), activation("output", (), rng, dtype=target)
            # wide to narrow by less than 1, since 32 bits may not overflow; narrow to wide by more
            ratio = np.exp2(rng.uniform(-20, -1) if source == "int32" else rng.uniform(0, 14))
            yield f"{source}to{target}", [x], rescaled(out, x.scale / ratio), {}


def _cast(rng: Rng) -> Iterator[Drawn]:
    types = ("int8", "uint8", "int16", "int32", "int64", "float32")
    for source, target in itertools.product(types, (*types, "bool")):
        yield f"{source}to{target}", [Tensor("input", (1, 5, 7, 3), source)], Tensor("output", (), target), {}


def _dequantize(rng: Rng) -> Iterator[Drawn]:
    for source, _ in itertools.product(("int8", "uint8", "int16"), range(10)):
        yield source, [activation("input", (1, 8, 9, 3), rng, dtype=source)], Tensor("output", (), "float32"), {}


def _layout_types(rng: Rng) -> Iterator[Callable[[str, tuple[int, ...]], Tensor]]:
    """Makers of tensors that share their type and quantisation; int8 mostly."""
    for dtype in ("int8", "int8", "int8", "float32"):
        quant = activation("x", (), rng, dtype=dtype).quant
        yield lambda name, shape, dtype=dtype, quant=quant: Tensor(name, shape, dtype, quant)  # type: ignore[misc]


def _pad(rng: Rng) -> Iterator[Drawn]:
    chosen = [((1, 4, 5, 3), ((0, 0), (1, 1), (1, 1), (0, 0))), ((1, 4, 5, 3), ((0, 0), (0, 1), (2, 0), (0, 0)))]
    chosen += [((1, 4, 5, 3), ((0, 0), (0, 0), (0, 0), (1, 2))), ((4, 5), ((1, 0), (0, 2))), ((6,), ((2, 3),))]
    chosen += [
        ((2, 3, 2), ((1, 1), (0, 0), (3, 1))),
        ((1, 4, 5, 3), ((0, 0),) * 4),
        ((1, 2, 3, 2), ((1, 0), (0, 1), (1, 0), (0, 1))),
    ]
    for tensor in _layout_types(rng):
        for shape, paddings in chosen:
            yield f"{text(shape)}", [tensor("input", shape), integers("paddings", *paddings)], tensor("output", ()), {}


def _reshape(rng: Rng) -> Iterator[Drawn]:
    chosen = [((1, 4, 5, 3), (1, 60)), ((1, 4, 5, 3), (1, -1)), ((60,), (3, 4, 5)), ((2, 3), (6,)), ((1, 1), ())]
    for tensor, (shape, wanted), operand in itertools.product(_layout_types(rng), chosen, (True, False)):
        operands: list[Tensor | None] = [tensor("input", shape)]
        if operand:
            operands.append(constant("shape", np.array(wanted, np.int32)))
        attrs = {"new_shape": None if operand else wanted}
        yield f"{text(shape)}-to-{text(wanted)}{'' if operand else '-attr'}", operands, tensor("output", ()), attrs


def _squeeze(rng: Rng) -> Iterator[Drawn]:
    chosen = [
        ((1, 4, 1, 3), ()),
        ((1, 4, 1, 3), (0,)),
        ((1, 4, 1, 3), (2,)),
        ((1, 4, 1, 3), (-2, 0)),
        ((1, 1), (1,)),
        ((5, 2), ()),
    ]
    for tensor, (shape, axes) in itertools.product(_layout_types(rng), chosen):
        yield f"{text(shape)}-{axes}", [tensor("input", shape)], tensor("output", ()), {"axes": axes}


def _expand_dims(rng: Rng) -> Iterator[Drawn]:
    for tensor, axis in itertools.product(_layout_types(rng), (0, 1, 2, 3, -1, -4)):
        yield f"at{axis}", [tensor("input", (4, 5, 3)), constant("axis", np.array(axis, np.int32))], tensor("output", ()), {}


def _concatenation(rng: Rng) -> Iterator[Drawn]:
    chosen = [
        (((1, 4, 5, 3), (1, 4, 5, 2)), 3),
        (((1, 4, 5, 3), (1, 4, 5, 2), (1, 4, 5, 7)), -1),
        (((1, 4, 5, 3), (1, 2, 5, 3)), 1),
    ]
    chosen += [
        (((1, 4, 5, 3), (1, 4, 1, 3)), 2),
        (((4, 5), (3, 5)), 0),
        (((4,), (3,)), 0),
        (((1, 6), (1, 9)), 1),
        (((1, 4, 5, 3),), 3),
    ]
    for tensor, (shapes, axis) in itertools.product(_layout_types(rng), chosen):
        operands: list[Tensor | None] = [tensor(f"input{i}", shape) for i, shape in enumerate(shapes)]
        if len(shapes) == 3:
            operands.append(operands[0])  # the same tensor twice
        yield f"{len(operands)}-at{axis}", operands, tensor("output", ()), {"axis": axis, "activation": "none"}


def _transpose(rng: Rng) -> Iterator[Drawn]:
    chosen: list[tuple[int, ...]] = [
        (0, 3, 1, 2),
        (0, 2, 3, 1),
        (0, 2, 1, 3),
        (3, 2, 1, 0),
        (1, 0),
        (0, 1),
        (2, 0, 1),
        (0,),
        (-1, 0),
    ]
    for tensor, perm in itertools.product(_layout_types(rng), chosen):
        shape = (2, 4, 5, 3)[: len(perm)]
        yield text(perm), [tensor("input", shape), integers("perm", *perm)], tensor("output", ()), {}


SLICES: tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], dict[str, int]], ...] = (
    ((0, 0, 0, 0), (1, 4, 5, 3), (1, 1, 1, 1), {}),
    ((0, 1, 2, 0), (1, 3, 5, 2), (1, 1, 1, 1), {}),
    ((0, 0, 0, 0), (1, 4, 5, 3), (1, 2, 3, 1), {}),
    ((0, -3, -2, 0), (1, -1, 5, 3), (1, 1, 1, 1), {}),
    ((0, 3, 4, 2), (1, 0, 0, 0), (1, -1, -2, -1), {}),
    ((0, 0, 0, 0), (0, 0, 0, 0), (1, 1, 1, 1), {"end_mask": 15}),
    ((0, 2, 0, 1), (0, 0, 0, 0), (1, 1, 1, 1), {"begin_mask": 4, "end_mask": 15}),
    ((0, 2, 0, 1), (1, 3, 5, 2), (1, 1, 1, 1), {"shrink_axis_mask": 2}),
    ((0, -1, 0, 1), (1, 0, 5, 2), (1, 1, 1, 1), {"shrink_axis_mask": 11}),
    ((0, 2, 3, 1), (1, 3, 5, 2), (1, 2, 1, 1), {"begin_mask": 6, "shrink_axis_mask": 6}),
    ((0, 1, 0, 0), (1, 99, 5, 3), (1, 1, 1, 1), {}),
    ((0, 3, 0, 0), (1, -99, 5, 3), (1, -1, 1, 1), {}),
    ((0, 1), (1, 3), (1, 1), {}),
    ((0, 1), (0, 2), (1, 1), {"ellipsis_mask": 1}),
    ((0, 0, 1), (1, 0, 2), (1, 1, 1), {"ellipsis_mask": 2}),
    ((0, 0, 1), (1, 0, 2), (1, 1, 1), {"new_axis_mask": 2}),
    ((0, 1, 2, 0), (1, 2, 3, 2), (1, 1, 1, 1), {"offset": 1}),
)


def _strided_slice(rng: Rng) -> Iterator[Drawn]:
    masks = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)
    for tensor, (begin, end, strides, given) in itertools.product(_layout_types(rng), SLICES):
        attrs = {
            **masks,
            **{name: value for name, value in given.items() if name != "offset"},
            "offset": bool(given.get("offset")),
        }
        operands: list[Tensor | None] = [tensor("input", (1, 4, 5, 3))]
        operands += [integers("begin", *begin), integers("end", *end), integers("strides", *strides)]
        yield f"{begin}-{end}-{strides}-{given}".replace(" ", ""), operands, tensor("output", ()), attrs


def _pack(rng: Rng) -> Iterator[Drawn]:
    for tensor, (count, axis) in itertools.product(_layout_types(rng), ((1, 0), (2, 0), (3, 1), (2, 3), (2, -1))):
        operands: list[Tensor | None] = [tensor(f"input{i}", (4, 5, 3)) for i in range(count)]
        yield f"{count}-at{axis}", operands, tensor("output", ()), {"axis": axis}


def through_state(kind: str, x: Tensor, initial: Array, *, computed: bool) -> Graph:
    """The input is assigned to a variable, the output read from it, `kind` first; `computed` puts a relu before and after."""
    state = replace(x, name="memory", role="state")
    tensors = [x, state, replace(x, name="read"), constant("memory.initial", initial, x.quant)]
    assign, read = ("x", "memory"), ("memory", "read")
    ops, output = [], "read"
    if computed:
        tensors += [replace(x, name="before"), replace(x, name="after")]
        ops, assign, output = [("relu", "x", "before")], ("before", "memory"), "after"
    moves = [("read_variable", *read), ("assign_variable", *assign)]
    moves = moves if kind == "read_variable" else moves[::-1]
    if computed:  # a value is read where the state lies, and computed there, when the old one has been used
        used = ("relu", "read", "after")
        ops = [moves[0], used, *ops, moves[1]] if kind == "read_variable" else [*ops, *moves, used]
    else:
        ops = moves
    named = tuple(Op(f"{op}_{i}", op, (source,), (target,)) for i, (op, source, target) in enumerate(ops))
    init = (Op("init_memory", "assign_variable", ("memory.initial",), ("memory",)),)
    return check(verify(Graph(kind, {t.name: t for t in tensors}, named, ("x",), (output,), init)))


def _variable(kind: str) -> Callable[[Rng], Iterator[DrawnGraph]]:
    def draw(rng: Rng) -> Iterator[DrawnGraph]:
        for dtype, shape, computed in itertools.product(("int8", "int16", "float32"), ((1, 4, 5, 3), (7,)), (False, True)):
            if computed and dtype != "int8":
                continue
            x = activation("x", shape, rng, dtype=dtype)
            full = rng.integers(-100, 100, shape).astype(dtype)
            for about, initial in (("zeros", np.zeros_like(full)), ("values", full)):
                yield f"{dtype}-{text(shape)}-{about}", through_state(kind, x, initial, computed=computed)

    return draw


def _copied_types(rng: Rng) -> Iterator[Callable[[str, tuple[int, ...]], Tensor]]:
    yield from itertools.islice(_layout_types(rng), 1, None)
    quant = Quant((scale(rng),), (0,))
    yield lambda name, shape: Tensor(name, shape, "int16", quant)


def _scalar(name: str, value: int) -> Tensor:
    return constant(name, np.array(value, np.int32))


def _outputs(tensor: Callable[[str, tuple[int, ...]], Tensor], count: int) -> list[Tensor]:
    return [tensor(f"output{index}", ()) for index in range(count)]


def _split(rng: Rng) -> Iterator[Drawn]:
    chosen = (
        ((1, 4, 6, 3), 2, 2),
        ((1, 4, 5, 6), 3, 3),
        ((1, 4, 5, 6), 6, -1),
        ((4, 5), 2, 0),
        ((6,), 3, 0),
        ((1, 4, 4, 3), 1, 1),
    )
    for tensor, (shape, count, axis) in itertools.product(_copied_types(rng), chosen):
        yield f"{text(shape)}-at{axis}", [_scalar("axis", axis), tensor("input", shape)], _outputs(tensor, count), {}


def _split_v(rng: Rng) -> Iterator[Drawn]:
    chosen = (
        ((1, 4, 6, 3), (2, 4), 2),
        ((1, 4, 5, 6), (1, -1, 2), 3),
        ((5, 3), (4, 1), -2),
        ((7,), (-1,), 0),
        ((7, 2), (1, 2, 4), 0),
    )
    for tensor, (shape, sizes, axis) in itertools.product(_copied_types(rng), chosen):
        operands: list[Tensor | None] = [tensor("input", shape), integers("sizes", *sizes), _scalar("axis", axis)]
        yield f"{text(shape)}-{sizes}-at{axis}", operands, _outputs(tensor, len(sizes)), {}


def _unpack(rng: Rng) -> Iterator[Drawn]:
    chosen = (((3, 4, 5), 0), ((4, 3, 5), 1), ((4, 5, 3), -1), ((2, 3, 2, 4), 2), ((5,), 0))
    for tensor, (shape, axis) in itertools.product(_copied_types(rng), chosen):
        yield f"{text(shape)}-at{axis}", [tensor("input", shape)], _outputs(tensor, shape[axis]), {"axis": axis}


def _slice(rng: Rng) -> Iterator[Drawn]:
    chosen = (
        ((1, 4, 5, 3), (0, 1, 2, 0), (1, 2, 3, 3)),
        ((1, 4, 5, 3), (0, 1, 2, 1), (-1, -1, -1, -1)),
        ((4, 5), (1, 0), (2, 5)),
        ((7,), (3,), (-1,)),
        ((2, 3, 4, 2, 3), (0, 1, 1, 0, 2), (2, 2, 3, 1, 1)),
    )
    for tensor, (shape, begin, size) in itertools.product(_copied_types(rng), chosen):
        operands: list[Tensor | None] = [tensor("input", shape), integers("begin", *begin), integers("size", *size)]
        yield f"{text(shape)}-{begin}-{size}".replace(" ", ""), operands, tensor("output", ()), {}


def _tile(rng: Rng) -> Iterator[Drawn]:
    chosen = (
        ((1, 4, 5, 3), (1, 2, 3, 1)),
        ((1, 1, 1, 6), (1, 4, 5, 1)),
        ((2, 3), (3, 2)),
        ((4,), (3,)),
        ((1, 2, 3, 2), (2, 2, 2, 2)),
    )
    chosen += (((1, 2, 2, 3, 2), (1, 3, 1, 2, 1)),)
    for tensor, (shape, multiples) in itertools.product(_copied_types(rng), chosen):
        yield (
            f"{text(shape)}-by{text(multiples)}",
            [tensor("input", shape), integers("by", *multiples)],
            tensor("output", ()),
            {},
        )


def _broadcast_to(rng: Rng) -> Iterator[Drawn]:
    chosen = (((1, 1, 1, 3), (1, 4, 5, 3)), ((3,), (2, 4, 3)), ((4, 1), (4, 6)), ((1, 3, 1, 2), (2, 3, 4, 2)), ((2, 3), (2, 3)))
    chosen += (((2, 1, 3, 1, 2), (2, 4, 3, 5, 2)), ((1, 2, 1, 3, 1), (4, 2, 3, 3, 2)))
    for tensor, (shape, wanted) in itertools.product(_copied_types(rng), chosen):
        yield (
            f"{text(shape)}-to{text(wanted)}",
            [tensor("input", shape), integers("shape", *wanted)],
            tensor("output", ()),
            {},
        )


def _mirror_pad(rng: Rng) -> Iterator[Drawn]:
    chosen = (
        ((1, 4, 5, 3), ((0, 0), (1, 2), (3, 1), (0, 0))),
        ((1, 4, 5, 3), ((0, 0), (0, 0), (0, 2), (2, 1))),
        ((4, 5), ((1, 0), (0, 4))),
        ((6,), ((5, 3),)),
        ((2, 3, 2), ((1, 1), (0, 0), (1, 1))),
        ((1, 3, 3, 2), ((0, 0), (2, 2), (2, 2), (1, 1))),
    )
    for tensor, (shape, paddings), mode in itertools.product(_copied_types(rng), chosen, ("reflect", "symmetric")):
        operands: list[Tensor | None] = [tensor("input", shape), integers("paddings", *paddings)]
        yield f"{text(shape)}-{mode}", operands, tensor("output", ()), {"mode": mode}


RESIZES = (
    ((4, 5), (8, 10)),
    ((7, 3), (5, 11)),
    ((1, 1), (3, 4)),
    ((6, 6), (1, 1)),
    ((9, 8), (4, 3)),
    ((5, 5), (5, 5)),
    ((2, 40), (31, 13)),
)


def _resize(rng: Rng, dtypes: Iterator[Callable[[str, tuple[int, ...]], Tensor]]) -> Iterator[Drawn]:
    for tensor, (size, out), (aligned, half) in itertools.product(
        dtypes, RESIZES, ((False, False), (True, False), (False, True))
    ):
        n, c = (2, 3) if size == (7, 3) else (1, 1) if size == (5, 5) else (1, 4)
        about = f"{text(size)}-to{text(out)}{'-aligned' if aligned else ''}{'-half' if half else ''}"
        attrs = {"align_corners": aligned, "half_pixel_centers": half}
        yield about, [tensor("input", (n, *size, c)), integers("size", *out)], tensor("output", ()), attrs


def _resize_bilinear(rng: Rng) -> Iterator[Drawn]:
    for _ in range(3):
        quant = activation("x", (), rng).quant
        yield from _resize(rng, iter([lambda name, shape, quant=quant: Tensor(name, shape, "int8", quant)]))  # type: ignore[misc]


def _padv2(rng: Rng) -> Iterator[Drawn]:
    for about, (x, amounts), out, attrs in _pad(rng):
        assert x is not None and isinstance(out, Tensor)
        value = np.array([0.0 if x.dtype == "float32" else rng.integers(-128, 128)]).astype(x.dtype)
        yield about, [x, amounts, constant("value", value, x.quant)], out, attrs


def _gather(rng: Rng) -> Iterator[Drawn]:
    chosen = (
        ((2, 3, 4, 5), 0, (0,), 0),
        ((1, 4, 5, 8), 3, (0, 4, 1, 5, 2, 6, 3, 7), 0),
        ((1, 4, 5, 8), -1, (7, 0, 0), 0),
        ((1, 4, 5, 3), 1, (3, 1, 0, 2, 2), 0),
        ((6, 4), 0, ((5, 1), (0, 3)), 0),
        ((6, 4), 1, 2, 0),
        ((9,), 0, (3, 8), 0),
        ((2, 3, 4), 1, ((0, 2, 1, 1), (2, 2, 0, 1)), 1),
        ((2, 3, 4), 2, ((0, 3), (2, 1)), 1),
    )
    for tensor, (shape, axis, indices, batch) in itertools.product(_copied_types(rng), chosen):
        operands: list[Tensor | None] = [tensor("input", shape), constant("indices", np.array(indices, np.int32))]
        yield f"{text(shape)}-at{axis}-b{batch}", operands, tensor("output", ()), {"axis": axis, "batch_dims": batch}


def _gather_nd(rng: Rng) -> Iterator[Drawn]:
    chosen = (
        ((2, 3, 4, 5), (6, 4)),
        ((2, 3, 4, 5), (1, 3)),
        ((5, 4, 3), (2, 3, 2)),
        ((5, 3), (7, 1)),
        ((9,), (4, 1)),
        ((3, 4), (2,)),
    )
    for tensor, (shape, wanted), fixed in itertools.product(_copied_types(rng), chosen, (False, True)):
        indices = Tensor("indices", wanted, "int32")
        if fixed:
            indices = constant("indices", rng.integers(0, shape[: wanted[-1]], wanted).astype(np.int32))
        operands: list[Tensor | None] = [tensor("input", shape), indices]
        yield f"{text(shape)}-by{text(wanted)}{'-fixed' if fixed else ''}", operands, tensor("output", ()), {}


def _depth_to_space(rng: Rng) -> Iterator[Drawn]:
    for tensor, (shape, block) in itertools.product(
        itertools.islice(_copied_types(rng), 3), (((1, 4, 5, 12), 2), ((2, 3, 1, 9), 3), ((1, 2, 3, 4), 1), ((1, 1, 1, 16), 4))
    ):
        yield f"{text(shape)}-by{block}", [tensor("input", shape)], tensor("output", ()), {"block_size": block}


def _space_to_depth(rng: Rng) -> Iterator[Drawn]:
    for tensor, (shape, block) in itertools.product(
        itertools.islice(_copied_types(rng), 3), (((1, 4, 6, 5), 2), ((2, 3, 9, 1), 3), ((1, 2, 3, 4), 1), ((1, 4, 4, 2), 4))
    ):
        yield f"{text(shape)}-by{block}", [tensor("input", shape)], tensor("output", ()), {"block_size": block}


def _space_to_batch_nd(rng: Rng) -> Iterator[Drawn]:
    chosen = (
        ((1, 4, 6, 3), (2, 2), ((0, 0), (0, 0))),
        ((1, 5, 7, 2), (2, 3), ((1, 2), (0, 2))),
        ((2, 3, 4, 2), (3, 1), ((0, 0), (1, 1))),
        ((1, 7, 3), (2,), ((1, 0),)),
        ((3, 4, 4, 1), (4, 2), ((2, 2), (0, 0))),
        ((1, 1, 5, 3), (2, 2), ((1, 0), (0, 1))),  # pieces of one row, which is padding
    )
    for tensor, (shape, block, pads) in itertools.product(itertools.islice(_copied_types(rng), 4), chosen):
        operands: list[Tensor | None] = [tensor("input", shape), integers("block", *block), integers("pads", *pads)]
        yield f"{text(shape)}-by{text(block)}", operands, tensor("output", ()), {}


def _batch_to_space_nd(rng: Rng) -> Iterator[Drawn]:
    chosen = (
        ((4, 2, 3, 3), (2, 2), ((0, 0), (0, 0))),
        ((6, 4, 3, 2), (2, 3), ((1, 2), (0, 2))),
        ((6, 3, 4, 2), (3, 1), ((0, 0), (1, 1))),
        ((4, 5, 3), (2,), ((1, 0),)),
        ((24, 2, 2, 1), (4, 2), ((2, 3), (0, 0))),
    )
    for tensor, (shape, block, crops) in itertools.product(itertools.islice(_copied_types(rng), 4), chosen):
        operands: list[Tensor | None] = [tensor("input", shape), integers("block", *block), integers("crops", *crops)]
        yield f"{text(shape)}-by{text(block)}", operands, tensor("output", ()), {}


def _svdf(rng: Rng) -> Iterator[Drawn]:
    for number in range(30):
        batch, depth, units, rank, steps = (
            int(rng.choice(v)) for v in ([1, 1, 2], [1, 5, 16], [1, 3, 8], [1, 1, 2], [1, 4, 9])
        )
        x, out = activation("input", (batch, depth), rng), activation("output", (), rng)
        weights = constant(
            "weights", rng.integers(-127, 128, (units * rank, depth)).astype(np.int8), Quant((scale(rng),), (0,))
        )
        state_scale = float(np.float32(x.scale * weights.scale * 75 * 75 * depth**0.5 / 9000 * rng.uniform(0.3, 3)))
        state = Tensor("state", (batch, units * rank * steps), "int16", Quant((state_scale,), (0,)), role="state")
        values = rng.integers(-20000, 20000, (units * rank, steps)).astype(np.int16)
        # small enough for sums below 2^31
        time = constant("time", values // np.int16(steps * rank), Quant((scale(rng, 1e-5, 1e-3),), (0,)))
        out = rescaled(out, state_scale * time.scale * 9000 * 10000 / 60 * rng.uniform(0.05, 1))
        bias = None
        if number % 4:
            quant = Quant((float(np.float32(state_scale * time.scale)),), (0,))
            bias = constant("bias", rng.integers(-(1 << 26), 1 << 26, units).astype(np.int32), quant)
        about = f"{batch}x{depth}to{units}-rank{rank}-{steps}steps"
        yield about, [x, weights, time, bias, state], out, {"rank": rank, "activation": "relu"}


def _shape(rng: Rng) -> Iterator[Drawn]:
    for shape, dtype in itertools.product(((1, 4, 5, 3), (7,), (2, 3)), ("int32", "int64")):
        yield f"{text(shape)}-{dtype}", [activation("input", shape, rng)], Tensor("output", (), dtype), {}


def _leaky_relu(rng: Rng) -> Iterator[Drawn]:
    for number in range(64):
        dtype = "int16" if number % 4 == 3 else "int8"
        x, out = activation("input", (1, 4, 5, 13), rng, dtype=dtype), activation("output", (), rng, dtype=dtype)
        if number % 2:
            out = rescaled(out, x.scale * (2.0 ** rng.integers(-1, 3) if number % 4 == 1 else rng.uniform(0.3, 1.5)))
        alpha = float(np.float32(rng.choice([0.1, 0.3, 0.01, 0.5, 1.0, 0.0, 2.0, -0.2])))
        yield f"{dtype}-{x.scale:.3g}to{out.scale:.3g}-alpha{alpha:.3g}", [x], out, {"alpha": alpha}


def _prelu(rng: Rng) -> Iterator[Drawn]:
    pairs = [((1, 4, 5, 3), (1, 1, 3)), ((1, 4, 5, 3), (1, 1, 1, 3)), ((1, 4, 5, 3), (1,)), ((1, 4, 5, 3), (4, 5, 3))]
    pairs += [((1, 4, 5, 3), (1, 5, 1)), ((7, 6), (6,)), ((2, 3, 4), (1, 4)), ((30,), (30,))]
    for number in range(48):
        shape, slopes = pairs[number % len(pairs)]
        x, alpha, out = activation("input", shape, rng), activation("alpha", slopes, rng), activation("output", (), rng)
        if number % 3:
            out = rescaled(out, x.scale * (2.0 ** rng.integers(-1, 3) if number % 3 == 1 else rng.uniform(0.3, 1.5)))
        if number % 5:
            alpha = constant("alpha", rng.integers(-128, 128, slopes).astype(np.int8), alpha.quant)
        yield f"{text(shape)}-{text(slopes)}", [x, alpha], out, {}


def _hard_swish(rng: Rng) -> Iterator[Drawn]:
    for number in range(80):
        x, out = activation("input", (1, 16, 32), rng), activation("output", (), rng)
        if number % 2:
            out = rescaled(out, x.scale * rng.uniform(0.3, 1.5))
        out = rescaled(out, max(out.scale, x.scale / 100))
        yield f"{x.scale:.3g}to{out.scale:.3g}", [x], out, {}


def _extremum(rng: Rng) -> Iterator[Drawn]:
    for number in range(66):
        first, second = SHAPE_PAIRS[number % len(SHAPE_PAIRS)]
        a, out = activation("a", first, rng), activation("output", (), rng)
        b = replace(a, name="b", shape=second)
        if number % 3:
            b = constant("b", rng.integers(-128, 128, second).astype(np.int8), b.quant)
        if number % 11 == 7:
            b = a
        yield f"{text(a.shape)}-{text(b.shape)}", [a, b], replace(out, quant=a.quant), {}


def _reduce(rng: Rng) -> Iterator[Drawn]:
    for about, operands, out, attrs in _mean(rng):
        assert operands[0] is not None
        yield about, operands, replace(out, quant=operands[0].quant), attrs


def _arg_max(rng: Rng) -> Iterator[Drawn]:
    chosen = [
        ((1, 4, 5, 3), (3, -1, 1, 2, 0)),
        ((1, 70), (1, 0)),
        ((33,), (0,)),
        ((1, 12, 10, 60), (-1, 2)),
        ((2, 90, 4), (1, -1)),
    ]
    for dtype in ("int32", "int64"):
        for shape, places in chosen:
            for axis in places:
                operands = [activation("input", shape, rng), constant("axis", np.array(axis, np.int32))]
                yield f"{text(shape)}-at{axis}-{dtype}", operands, Tensor("output", (), dtype), {}


NOT_IN_LITERT = {"elu"}  # among its reference kernels; others of its own have it
GENERATORS: dict[str, Callable[[Rng], Iterator[Any]]] = {
    "add": _sum,
    "arg_max": _arg_max,
    "assign_variable": _variable("assign_variable"),
    "average_pool_2d": _pool,
    "batch_matmul": batch_matmul,
    "batch_to_space_nd": _batch_to_space_nd,
    "broadcast_to": _broadcast_to,
    "cast": _cast,
    "concatenation": _concatenation,
    "conv_2d": conv_2d,
    "depth_to_space": _depth_to_space,
    "depthwise_conv_2d": depthwise_conv_2d,
    "dequantize": _dequantize,
    "expand_dims": _expand_dims,
    "fully_connected": fully_connected,
    "gather": _gather,
    "gather_nd": _gather_nd,
    "elu": _table,
    "gelu": _gelu,
    "hard_swish": _hard_swish,
    "leaky_relu": _leaky_relu,
    "log_softmax": _log_softmax,
    "logistic": lambda rng: _table(rng, Quant((1 / 256,), (-128,))),
    "max_pool_2d": _pool,
    "maximum": _extremum,
    "mean": _mean,
    "minimum": _extremum,
    "mirror_pad": _mirror_pad,
    "mul": _mul,
    "pack": _pack,
    "pad": _pad,
    "padv2": _padv2,
    "prelu": _prelu,
    "quantize": _quantize,
    "reduce_max": _reduce,
    "reduce_min": _reduce,
    "read_variable": _variable("read_variable"),
    "relu": _relu,
    "relu6": _relu,
    "relu_n1_to_1": _relu,
    "reshape": _reshape,
    "resize_bilinear": _resize_bilinear,
    "resize_nearest_neighbor": lambda rng: _resize(rng, _copied_types(rng)),
    "shape": _shape,
    "slice": _slice,
    "softmax": _softmax,
    "space_to_batch_nd": _space_to_batch_nd,
    "space_to_depth": _space_to_depth,
    "split": _split,
    "split_v": _split_v,
    "squeeze": _squeeze,
    "strided_slice": _strided_slice,
    "sub": _sum,
    "svdf": _svdf,
    "tanh": _table,
    "tile": _tile,
    "transpose": _transpose,
    "transpose_conv": transpose_conv,
    "unidirectional_sequence_lstm": lstm,
    "unpack": _unpack,
}
