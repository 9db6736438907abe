"""Growers of random networks beyond int8 and TFLite: other types, int4 weights, ops converted from uint8, custom ops.

`FILED` adds to generate.py the growers that a LiteRT file can hold; `ALL` has also those that only a graph can.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from cases.elementwise import numbers
from cases.ops import fitted

from tinyweave.ir import Graph, Op, Quant, Tensor, verify
from tinyweave.ops.extrema import COMPARISONS
from tinyweave.ops.functions import FUNCTIONS
from tinyweave.ops.recurrent import sequence

from .growers import (
    ACTIVATIONS,
    GROWERS,
    Grower,
    Growers,
    anything,
    arg,
    conv_2d,
    depthwise_conv_2d,
    fully_connected,
    pool,
    reshape_to,
    resize,
    window_attrs,
)
from .growth import Growth

FROM = {"int8": ("uint8", "float32"), "uint8": ("uint8", "int8", "float32"), "float32": ("int16", "uint8")}
TYPES = ("int8", "uint8", "int16", "int32", "int64", "float32", "bool")  # targets of casts from int8
UINT8 = (  # op kinds that LiteRT computes on uint8 as on int8, or for which there are other kernels
    *("conv_2d", "depthwise_conv_2d", "fully_connected", "add", "sub", "mul", "average_pool_2d", "max_pool_2d", "mean", "pad"),
    *("concatenation", "reshape", "logistic", "resize_bilinear", "split", "slice"),
)


def converted(g: Growth, name: str, dtype: str) -> str:
    """Return the tensor converted to another type."""
    if dtype == "float32":
        out = g.emit("dequantize", [name], dtype=dtype)
        g.tensors[out] = replace(g.tensors[out], quant=None)
        return out
    x, quant = g.tensors[name], g.quant()
    scale, (zero,) = quant.scale[0], quant.zero_point
    if dtype == "uint8":
        quant = Quant((scale,), (zero + 128,))
    if {x.dtype, dtype} == {"int8", "uint8"} and zero % 2 == 0:  # with the same scale only the sign bits change
        quant = Quant((x.scale,), (x.zero_point + (128 if dtype == "uint8" else -128),))
    if dtype == "int16":
        quant = Quant((float(np.float32(scale / 200)),), (0,))
    return g.emit("quantize", [name], {}, quant, dtype=dtype)


def detour(g: Growth) -> None:
    """Convert a tensor to other types and back, with an op on int16 if int16 is one of them."""
    name, dtype, live = anything(g).name, "int8", list(g.live)
    for _ in range(g.rng.randint(1, 4)):
        dtype = g.rng.choice(FROM[dtype])
        name = converted(g, name, dtype)
        if dtype == "int16":
            break
    if dtype == "int16":
        shape = g.tensors[name].shape
        on_int16 = [leaky_s16, sum_s16, product_s16, sigmoid_s16("logistic"), sigmoid_s16("tanh")]
        on_int16 += [conv_s16, transpose_s16] if len(shape) == 4 else []
        on_int16 += [dense_s16] if shape[-1] <= 256 else []
        on_int16 += [shares_s16] if len(shape) <= 4 else []
        on_int16 += [pool_s16, mean_s16] if len(shape) == 4 else []
        name = g.rng.choice(on_int16)(g, g.tensors[name])
        name = converted(g, name, "float32") if g.rng.random() < 0.4 else name
    g.live = [*live, converted(g, name, "int8") if dtype != "int8" else name]


def leaky_s16(g: Growth, x: Tensor) -> str:
    return g.emit("leaky_relu", [x.name], {"alpha": 0.25}, x.quant, dtype="int16")


def sum_s16(g: Growth, x: Tensor) -> str:
    shape = (1,) * (len(x.shape) - 1) + x.shape[-1:]
    other = g.constant("operand", g.numpy.integers(-30000, 30000, shape, dtype=np.int16), x.quant)
    out = Quant((float(np.float32(x.scale * 2)),), (0,))
    return g.emit("add", [x.name, other], {"activation": "none"}, out, dtype="int16")


def product_s16(g: Growth, x: Tensor) -> str:
    shape = (1,) * (len(x.shape) - 1) + x.shape[-1:]
    other = g.constant("operand", g.numpy.integers(-30000, 30000, shape, dtype=np.int16), x.quant)
    out = Quant((float(np.float32(x.scale**2 * 20000)),), (0,))
    return g.emit("mul", [x.name, other], {"activation": g.rng.choice(ACTIVATIONS)}, out, dtype="int16")


def sigmoid_s16(kind: str) -> Callable[[Growth, Tensor], str]:
    return lambda g, x: g.emit(kind, [x.name], {}, Quant((2.0**-15,), (0,)), dtype="int16")


def shares_s16(g: Growth, x: Tensor) -> str:
    return g.emit("softmax", [x.name], {"beta": 1.0}, Quant((2.0**-15,), (0,)), dtype="int16")


def dense_s16(g: Growth, x: Tensor) -> str:
    """Add a dense layer over the last axis."""
    weights, bias, out = filters_s16(g, x, (g.rng.randint(1, 9), x.shape[-1]))
    attrs = {"activation": g.rng.choice(ACTIVATIONS), "keep_num_dims": True}
    return g.emit("fully_connected", [x.name, weights, bias], attrs, out, dtype="int16")


def filters_s16(g: Growth, x: Tensor, shape: tuple[int, ...]) -> tuple[str, str, Quant]:
    """Return weights, a bias and the quantisation of the output."""
    scale, fan_in = 2.0**-7, int(np.prod(shape[1:]))
    weights = g.constant("weights", g.numpy.integers(-127, 128, shape, dtype=np.int8), Quant((scale,), (0,)))
    product = float(np.float32(x.scale * scale))
    values = g.numpy.integers(-100000, 100000, shape[0])
    bias = g.constant("bias", values.astype(("int32", "int64")[values[0] % 2]), Quant((product,), (0,)))
    return weights, bias, Quant((float(np.float32(product * fan_in**0.5 * 100)),), (0,))


def conv_s16(g: Growth, x: Tensor) -> str:
    attrs = window_attrs(g, x.shape[1], x.shape[2], dilate=True)
    kernel = attrs.pop("kernel")
    weights, bias, out = filters_s16(g, x, (g.rng.randint(1, 6), *kernel, x.shape[3]))
    return g.emit("conv_2d", [x.name, weights, bias], attrs | {"activation": "none"}, out, dtype="int16")


def pool_s16(g: Growth, x: Tensor) -> str:
    attrs = window_attrs(g, x.shape[1], x.shape[2], dilate=False)
    del attrs["dilation"]
    kind = g.rng.choice(("average_pool_2d", "max_pool_2d"))
    return g.emit(kind, [x.name], attrs | {"activation": g.rng.choice(ACTIVATIONS)}, x.quant, dtype="int16")


def mean_s16(g: Growth, x: Tensor) -> str:
    """Add a mean over rows, columns, both or channels; it keeps four axes."""
    axes = g.constant("axes", np.array(g.rng.choice(([1], [2], [1, 2], [3])), np.int32))
    return g.emit("mean", [x.name, axes], {"keep_dims": True}, x.quant, dtype="int16")


def transpose_s16(g: Growth, x: Tensor) -> str:
    kernel, stride = [g.rng.randint(1, 3) for _ in range(2)], [g.rng.randint(1, 2) for _ in range(2)]
    size = [(extent - 1) * s + k for extent, s, k in zip(x.shape[1:3], stride, kernel, strict=True)]
    weights, bias, out = filters_s16(g, x, (g.rng.randint(1, 5), *kernel, x.shape[3]))
    wanted = g.constant("numbers", np.array([x.shape[0], *size, g.tensors[weights].shape[0]], np.int32))
    attrs = {"stride": tuple(stride), "padding": ((0, 0), (0, 0)), "activation": "none"}
    return g.emit("transpose_conv", [wanted, weights, x.name, bias], attrs, out, dtype="int16")


def ends_here(g: Growth, kind: str, dtype: str, quant: Quant | None) -> None:
    """Add an op whose output has no reader."""
    out = g.emit(kind, [anything(g).name], {"beta": 1.0} if kind == "softmax" else {}, quant, dtype=dtype)
    g.live.remove(out)
    g.tensors[out] = replace(g.tensors[out], quant=quant)


def cast(g: Growth) -> None:
    ends_here(g, "cast", g.rng.choice(TYPES), None)


def softmax_s16(g: Growth) -> None:
    maps = [g.tensors[name] for name in g.live]
    if all(len(x.shape) <= 4 and x.shape[-1] < 4096 and 2.0**-26 < x.scale < 15 for x in maps):
        ends_here(g, "softmax", "int16", Quant((2.0**-16,), (-32768,)))


def of_bools(g: Growth, kind: str, operands: list[str | None], attrs: dict | None = None) -> str:
    """Add an op whose output is bool, and return its name; only `bools` reads it."""
    out = g.emit(kind, operands, attrs, dtype="bool")
    g.live.remove(out)
    g.tensors[out] = replace(g.tensors[out], quant=None)
    return out


def bools(g: Growth) -> None:
    """Compare tensors of one shape, combine or reduce the bools, and select elements by them."""
    small = [name for name in g.live if g.tensors[name].scale < 1 and 1 <= len(g.tensors[name].shape) <= 4]
    if not small:
        return
    x = g.tensors[g.rng.choice(small)]
    alike, shape = [name for name in small if g.tensors[name].shape == x.shape], (1,) * (len(x.shape) - 1) + x.shape[-1:]

    def operand() -> str:
        return g.constant("operand", g.numpy.integers(-128, 128, shape, dtype=np.int8), x.quant)

    def compared() -> str:
        other = g.rng.choice(alike) if g.rng.random() < 0.6 else operand()
        return of_bools(g, g.rng.choice(list(COMPARISONS)), [x.name, other])

    mask = compared()
    for _ in range(g.rng.randint(0, 2)):
        both = g.rng.random() < 0.6
        kind = g.rng.choice(("logical_and", "logical_or")) if both else "logical_not"
        mask = of_bools(g, kind, [mask, compared()] if both else [mask])
    if g.rng.random() < 0.3:
        axes = g.constant("axes", np.array(g.rng.sample(range(len(x.shape)), g.rng.randint(1, len(x.shape))), np.int32))
        mask = of_bools(g, g.rng.choice(("reduce_any", "reduce_all")), [mask, axes], {"keep_dims": True})
    if g.rng.random() < 0.8:
        g.emit("select_v2", [mask, x.name, operand()], {}, x.quant)


def div(g: Growth) -> None:
    """Divide by a constant that is not 0, with an output scale for which LiteRT's shifts are defined."""
    x = anything(g)
    shape, scale = (1,) * (len(x.shape) - 1) + x.shape[-1:], float(np.float32(x.scale / 64))
    divisor = g.numpy.integers(64, 128, shape, dtype=np.int8) * g.numpy.choice(np.array([-1, 1], np.int8), shape)
    y = g.constant("divisor", divisor, Quant((1.0,), (0,)))
    if scale > 2.0**-30:
        g.emit("div", [x.name, y], {"activation": g.rng.choice(ACTIVATIONS)}, Quant((scale,), (g.rng.randint(-128, 127),)))


def reduce_prod(g: Growth) -> None:
    x = anything(g)
    axes = g.rng.sample(range(len(x.shape)), g.rng.randint(1, len(x.shape)))
    if x.scale < 0.5:
        g.emit("reduce_prod", [x.name, g.constant("axes", np.array(axes, np.int32))], {"keep_dims": g.rng.random() < 0.5})


def total(g: Growth) -> None:
    """Add a sum, which LiteRT computes as if int8 were uint8."""
    x = anything(g)
    axes = g.rng.sample(range(len(x.shape)), g.rng.randint(1, len(x.shape)))
    quant = Quant((float(np.float32(x.scale * g.rng.uniform(0.5, 9))),), (g.rng.randint(-128, 127),))
    g.emit("sum", [x.name, g.constant("axes", np.array(axes, np.int32))], {"keep_dims": g.rng.random() < 0.5}, quant)


def l2_normalization(g: Growth) -> None:
    if len((x := anything(g)).shape) <= 4:
        g.emit("l2_normalization", [x.name], {"activation": "none"}, Quant((1 / 128,), (0,)))


def gather_nd(g: Growth) -> None:
    x = anything(g)
    if x.shape:
        depth, count = g.rng.randint(1, min(len(x.shape), 4)), g.rng.randint(1, 6)
        indices = [[g.rng.randrange(extent) for extent in x.shape[:depth]] for _ in range(count)]
        g.emit("gather_nd", [x.name, g.constant("indices", np.array(indices, np.int32))], {}, x.quant)


def svdf(g: Growth) -> None:
    x = anything(g)
    reshape_to(g, x, (1, x.elements))
    x, units, rank, steps = g.tensors[g.live[-1]], g.rng.randint(1, 6), g.rng.randint(1, 2), g.rng.randint(1, 5)
    weights = g.constant(
        "weights", g.numpy.integers(-127, 128, (units * rank, x.elements), dtype=np.int8), Quant((2.0**-7,), (0,))
    )
    state_scale = float(np.float32(x.scale * 2.0**-7 * 75 * 75 * x.elements**0.5 / 9000))
    time = g.numpy.integers(-20000 // (steps * rank), 20000 // (steps * rank), (units * rank, steps), dtype=np.int16)
    state = g.state((1, units * rank * steps), Quant((state_scale,), (0,)), "int16")
    bias_scale = float(np.float32(state_scale * 2.0**-13))
    bias = g.constant("bias", g.numpy.integers(-(1 << 24), 1 << 24, units, dtype=np.int32), Quant((bias_scale,), (0,)))
    operands = [x.name, weights, g.constant("time", time, Quant((2.0**-13,), (0,))), bias, state]
    out = Quant((float(np.float32(bias_scale * 9000 * 10000 / 60)),), (g.rng.randint(-128, 127),))
    g.emit("svdf", operands, {"rank": rank, "activation": "relu"}, out)


def last_op(g: Growth, grow: Grower) -> Op | None:
    """Return the last op that a grower appends, if any."""
    before = len(g.ops)
    grow(g)
    return g.ops[-1] if len(g.ops) > before else None


def narrow_weights(*growers: Grower) -> Grower:
    """Return a grower that adds one of these with int4 weights of about the same real values."""

    def grow(g: Growth) -> None:
        if (op := last_op(g, g.rng.choice(growers))) is not None:
            for name in op.inputs[1:]:
                if name is not None and (data := g.tensors[name].data) is not None:
                    quant = g.tensors[name].quant
                    assert quant is not None
                    coarse = replace(quant, scale=tuple(scale * 16 for scale in quant.scale))
                    dtype = "int4" if data.dtype == np.int8 else str(data.dtype)
                    g.tensors[name] = replace(g.tensors[name], dtype=dtype, data=data // data.dtype.type(16), quant=coarse)

    return grow


def was_uint8(*growers: Grower) -> Grower:
    """Return a grower that adds one of these as after `shift_uint8`: weights have one scale and a zero point."""

    def grow(g: Growth) -> None:
        if (op := last_op(g, g.rng.choice(growers))) is not None:
            g.ops[-1] = replace(op, attrs={**op.attrs, "unsigned": True})
            weights = g.tensors[op.inputs[1]] if len(op.inputs) > 1 and op.inputs[1] is not None else None
            if weights is not None and weights.quant is not None:
                zero = g.rng.choice((-128, -30, -9, -1, 3, 20, 127))
                g.tensors[weights.name] = replace(weights, quant=Quant(weights.quant.scale[:1], (zero,)))
                alone = fitted(Graph("alone", g.tensors, (g.ops[-1],), op.inputs[:1], op.outputs))  # type: ignore[arg-type]
                g.tensors[op.outputs[0]] = alone.tensors[op.outputs[0]]

    return grow


def usual(g: Growth) -> None:
    """Add a 3 x 3 convolution of stride 1 on a multiple of 4 channels."""
    wide = [name for name in g.live if len(g.tensors[name].shape) == 4 and g.tensors[name].shape[3] % 4 == 0]
    if not wide:
        return
    x = g.tensors[g.rng.choice(wide)]
    weights, bias, quant = g.weights((g.rng.randint(1, 12), 3, 3, x.shape[3]), 0, 9 * x.shape[3], x)
    attrs = {"stride": (1, 1), "dilation": (1, 1), "padding": ((1, 1), (1, 1)), "activation": g.rng.choice(ACTIVATIONS)}
    g.emit("conv_2d", [x.name, weights, bias], attrs, quant)


def chain(*growers: Grower) -> Grower:
    """Return a grower that adds a chain of these; intermediate tensors have no other reader."""

    def grow(g: Growth) -> None:
        live, x = list(g.live), anything(g)
        if x.elements > 500:
            return
        g.live = [x.name]
        for _ in range(g.rng.randint(2, 5)):
            g.rng.choice(growers)(g)
            g.live = g.live[-1:]
        g.live = [*live, *g.live]

    return grow


def function(g: Growth) -> None:
    """Add a function of one element that is computed by a table, or an op with a constant of one element."""
    x, quant = anything(g), g.quant()
    kind = g.rng.choice(("mul", "maximum", *(spec.kind for spec in FUNCTIONS)))
    if kind in ("mul", "maximum"):
        attrs = {"activation": g.rng.choice(ACTIVATIONS)} if kind == "mul" else {}
        quant = quant if kind == "mul" else x.quant
        number = g.constant("number", g.numpy.integers(1, 128, (1,), dtype=np.int8), x.quant)
        g.emit(kind, [x.name, number], attrs, quant)
    else:
        g.emit(kind, [x.name], numbers(kind, g.numpy), Quant((1 / 128,), (0,)) if kind == "tanh" else quant)


def from_initial_state(kind: str) -> Callable[[Growth], None]:
    def grow(g: Growth) -> None:
        x = anything(g)
        time = g.rng.choice([n for n in (1, 2, 3, 4, 6) if x.elements % n == 0])
        reshape_to(g, x, (1, time, x.elements // time))
        x, cells = g.tensors[g.live[-1]], g.rng.randint(1, 9)
        quant, rows = (
            Quant((float(np.float32(g.rng.uniform(1 / 256, 1 / 64))),), (g.rng.randint(-128, 127),)),
            sequence.GATES[kind] * cells,
        )

        def matrix(columns: int, source: float) -> str:
            scales = g.numpy.uniform(0.5, 4, rows) / (source * 75 * 75 * columns**0.5)
            per_row = Quant(tuple(map(float, scales.astype(np.float32))), (0,) * rows, 0)
            return g.constant("weights", g.numpy.integers(-127, 128, (rows, columns), dtype=np.int8), per_row)

        biases = [g.constant("bias", g.numpy.integers(-999, 999, rows, dtype=np.int32)) for _ in range(g.rng.randint(1, 2))]
        state = (
            g.constant("state", g.numpy.integers(-128, 128, (1, cells), dtype=np.int8), quant) if g.rng.random() < 0.3 else None
        )
        attrs = {name: float(g.rng.randint(0, 1)) for name in sequence.NUMBERS[kind]}
        weights = matrix(x.shape[2], x.scale), matrix(cells, quant.scale[0])
        operands = [x.name, *weights, *biases, *[None] * (2 - len(biases)), state]
        if kind != "stateless_lstm":
            g.emit(kind, operands, attrs, quant)
            return
        g.emit(kind, [*operands, None], attrs, quant, count=2)
        cell = g.live.pop()
        g.tensors[cell] = replace(g.tensors[cell], dtype="int16", quant=Quant((2.0 ** -g.rng.randint(10, 14),), (0,)))

    return grow


WEIGHTED: tuple[Callable[[Growth], None], ...] = (conv_2d, depthwise_conv_2d, fully_connected)
FILED: Growers = {
    **GROWERS,
    "usual": (1.5, usual),
    "int4 weights": (2, narrow_weights(*WEIGHTED)),
    "detour": (4, detour),
    "cast": (0.3, cast),
    "softmax to int16": (0.4, softmax_s16),
    "gather_nd": (0.6, gather_nd),
    "bools": (1.2, bools),
    "div": (0.4, div),
    "reduce_prod": (0.3, reduce_prod),
    "l2_normalization": (0.4, l2_normalization),
    "arg_min": (0.2, arg("arg_min")),
    "svdf": (0.8, svdf),
}
FORMER = was_uint8(*WEIGHTED, pool("average_pool_2d"), resize("resize_bilinear"))
ALL: Growers = {
    **FILED,
    "chain": (3, chain(narrow_weights(*WEIGHTED), FORMER, was_uint8(fully_connected), pool("max_pool_2d"))),
    "functions": (0.5, chain(function)),
    "sum": (0.3, total),
    "was uint8": (2, FORMER),
    "gru": (0.6, from_initial_state("gru")),
    "simple_rnn": (0.4, from_initial_state("simple_rnn")),
    "stateless_lstm": (0.4, from_initial_state("stateless_lstm")),
}


def as_uint8(graph: Graph, seed: int) -> Graph:
    """Return an int8 network of UINT8 kinds converted to uint8; weights get one scale and a random zero point."""
    rng, tensors = np.random.default_rng(seed), dict(graph.tensors)
    weights = {op.inputs[1] for op in graph.ops if op.kind in ("conv_2d", "depthwise_conv_2d", "fully_connected")}
    scale_of = {}
    for name, tensor in graph.tensors.items():
        if tensor.dtype == "int8" and tensor.quant is not None:
            scale, zero = tensor.quant.scale[:1], tensor.quant.zero_point[0] + 128
            zero = int(rng.integers(0, 256)) if name in weights else zero
            data = None if tensor.data is None else tensor.data.view(np.uint8) ^ np.uint8(128)
            tensors[name] = replace(tensor, dtype="uint8", data=data, quant=Quant(scale, (zero,)))
            scale_of[name] = scale[0]
    for op in graph.ops:
        if op.inputs[1:2] and op.inputs[1] in weights and len(op.inputs) > 2 and op.inputs[2] is not None:
            product = float(np.float32(scale_of[op.inputs[0]] * scale_of[op.inputs[1]]))
            tensors[op.inputs[2]] = replace(tensors[op.inputs[2]], quant=Quant((product,), (0,)))
    return verify(replace(graph, tensors=tensors))


AS_UINT8: Growers = {kind: GROWERS[kind] for kind in UINT8}
