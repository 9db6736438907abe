"""Random ONNX networks on images or sequences that grow layer by layer and end in a head.

Each layer is drawn among those that fit the current map, as ONNX Runtime judges. The network depends on its seed only.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from fuzz import onnx_quantised
from fuzz.onnx_growth import Layer, Network, run
from fuzz.whole_way import SAMPLES
from onnx import TensorProto

import tinyweave as tw

LEAST_SQNR_DB = 10.0  # of the int8 networks, half of which reach 42 dB
MOST_CHANNELS, MOST_ROWS = 24, 20
STATES = {"GRU": 3, "LSTM": 4, "RNN": 1}


def network(seed: int) -> tuple[bytes, np.ndarray]:
    """Return the file of a seed's network, and an example input. Some networks are int8 (`onnx_quantised`)."""
    if onnx_quantised.is_quantised(seed):
        return onnx_quantised.network(seed)
    made = Network(seed)
    for _ in range(made.rng.randint(2, 7)):
        made.grow(LAYERS.get(len(made.maps[-1][1]), [unary]))
    if len(made.maps[-1][1]) in HEADS:
        made.grow(HEADS[len(made.maps[-1][1])])
    return made.file(made.x, made.shape), made.example


def loaded(seed: int) -> tuple[tw.Model, np.ndarray]:
    """Return the network of a seed as a float or int8 model, and samples for its calibration."""
    file, example = network(seed)
    samples = np.random.default_rng(seed).standard_normal((SAMPLES, *example.shape)).astype(np.float32)
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"network_{seed}.onnx"
        path.write_bytes(file)
        return tw.load(path), samples


def size(n: Network, most: int = 4) -> list[int]:
    return [n.rng.randint(1, min(most, extent)) for extent in n.maps[-1][1][2:]]


def padding(n: Network, kernel: Sequence[int], *, least: int = 0) -> dict[str, Any]:
    """Return attributes of random padding that is smaller than the kernel."""
    how = n.rng.choice(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
    if how != "NOTSET":
        return {"auto_pad": how}
    return {"pads": [n.rng.randint(least, k - 1) for k in (*kernel, *kernel)]}


def convolution(n: Network) -> str:
    channels, kernel = n.maps[-1][1][1], size(n)
    group = n.rng.choice([d for d in range(1, channels + 1) if channels % d == 0])
    outputs = group * n.rng.randint(1, max(1, MOST_CHANNELS // group // 2))
    bias = [n.weights(outputs)] * n.rng.randint(0, 1)
    strides = [n.rng.choice([1, 1, 2]) for _ in kernel]
    how = padding(n, kernel)
    dilations = [n.rng.choice([1, 1, 2])] * len(kernel) if "pads" in how else [1] * len(kernel)
    weights = n.weights(outputs, channels // group, *kernel)
    return n.node("Conv", n.x, weights, *bias, strides=strides, group=group, dilations=dilations, **how)


def transposed(n: Network) -> str | None:
    channels, kernel = n.maps[-1][1][1], size(n)
    if max(n.maps[-1][1][2:]) > MOST_ROWS // 2:
        return None
    group = n.rng.choice([1, 1, channels])
    outputs, how = n.rng.randint(1, max(1, 8 // group)), padding(n, kernel)
    # ONNX Runtime's SAME output is smaller than ONNX demands if a stride is larger than the kernel
    strides = [n.rng.randint(1, 3 if "pads" in how else min(3, k)) for k in kernel]
    more = n.rng.choice([{}, {"output_padding": [s - 1 for s in strides]}, {"dilations": [2] * len(kernel)}])
    weights = n.weights(channels, outputs, *kernel)
    bias = [n.weights(outputs * group)] * n.rng.randint(0, 1)
    return n.node("ConvTranspose", n.x, weights, *bias, strides=strides, group=group, **more, **how)


def pool(n: Network) -> str:
    kernel, op = size(n), n.rng.choice(["MaxPool", "AveragePool"])
    more = {"count_include_pad": n.rng.randint(0, 1)} if op == "AveragePool" else {}
    how = padding(n, kernel)
    # ONNX does not define SAME if a stride is larger than the kernel
    strides = [n.rng.randint(1, 3 if "pads" in how else min(3, k)) for k in kernel]
    more |= {"ceil_mode": n.rng.randint(0, 1), "dilations": [n.rng.choice([1, 1, 2])] * len(kernel)} if "pads" in how else {}
    return n.node(op, n.x, kernel_shape=kernel, strides=strides, **how, **more)


def of_pixels(n: Network) -> str:
    """Multiply with a global pool."""
    return n.node("Mul", n.x, n.node(n.rng.choice(["GlobalAveragePool", "GlobalMaxPool"]), n.x))


def norm(n: Network) -> str:
    c, *rest = n.maps[-1][1][1:]
    groups, pixels = n.rng.choice([d for d in range(1, c + 1) if c % d == 0]), [0, *range(2, 2 + len(rest))]
    scale, bias, last = n.constant(1 + 0.3 * n.floats(c)), n.weights(c), n.constant(1 + 0.3 * n.floats(rest[-1]))
    return n.rng.choice([
        lambda: n.node("BatchNormalization", n.x, scale, bias, n.weights(c), n.constant(1 + n.draw.random(c))),
        lambda: n.node("InstanceNormalization", n.x, scale, bias, epsilon=0.1),
        lambda: n.node("GroupNormalization", n.x, scale, bias, num_groups=groups, epsilon=0.1),
        lambda: n.node("LayerNormalization", n.x, last, epsilon=0.1),
        lambda: n.node("RMSNormalization", n.x, last, axis=-1, epsilon=0.1),
        lambda: n.node("LRN", n.x, size=n.rng.choice([3, 5]), alpha=0.1, bias=1.0),
        lambda: n.node("LpNormalization", n.x, axis=n.rng.choice([1, -1])),
        lambda: n.node("MeanVarianceNormalization", n.node("Add", n.x, n.constant(n.floats(1, 1, *rest))), axes=pixels),
    ])()  # fmt: skip


def unary(n: Network) -> str:
    """Apply a function of one element; arguments of functions with a pole are moved away from it."""
    low, beta = round(n.rng.uniform(-1, 0.5), 3), round(n.rng.uniform(0.3, 2), 3)
    simple = "Abs Asinh Atan Ceil Erf Floor HardSwish Identity Mish Neg Relu Round Sigmoid Sign Softplus Softsign Tanh"
    limits = [n.constant(low), n.constant(low + 1.5)]
    positive = n.node("Add", n.node("Abs", n.x), n.constant(0.5))
    clipped = n.node("Clip", n.x, *limits)
    return n.rng.choice([
        *(lambda op=op: n.node(op, n.x) for op in simple.split()),
        *(lambda op=op: n.node(op, positive) for op in ("Log", "Reciprocal", "Sqrt")),
        *(lambda op=op: n.node(op, clipped) for op in ("Cosh", "Exp", "Sinh")),
        *(lambda op=op: n.node(op, n.node("Mul", n.node("Sin", n.x), n.constant(0.9))) for op in ("Acos", "Asin", "Atanh")),
        *(lambda op=op: n.node(op, n.node("Mul", n.node("Tanh", n.x), n.constant(1.5))) for op in ("Sin", "Cos")),
        lambda: n.node("Tan", n.node("Tanh", n.x)), lambda: n.node("Acosh", n.node("Add", positive, n.constant(0.6))),
        lambda: n.node("Clip", n.x, limits[0]),
        lambda: n.node("Clip", n.x, "", limits[1]), lambda: n.node("Clip", n.x, n.constant(0), n.constant(6)),
        lambda: n.node("Celu", n.x, alpha=beta), lambda: n.node("Elu", n.x, alpha=beta), lambda: n.node("Selu", n.x),
        lambda: n.node("Selu", n.x, alpha=beta, gamma=1.2), lambda: n.node("LeakyRelu", n.x, alpha=beta / 4),
        lambda: n.node("HardSigmoid", n.x, alpha=beta / 4, beta=0.4), lambda: n.node("Shrink", n.x, lambd=beta / 2, bias=low),
        lambda: n.node("ThresholdedRelu", n.x, alpha=beta / 2), lambda: n.node("PRelu", n.x, n.constant(beta / 3)),
        lambda: n.node("Gelu", n.x, approximate=n.rng.choice(["none", "tanh"])),
        lambda: n.node("Pow", positive, n.constant(beta)), lambda: n.node("Dropout", n.x),
        lambda: n.node("Pow", n.x, n.constant(n.rng.choice([2, 3]))),
        lambda: shares(n),
    ])()  # fmt: skip


def shares(n: Network) -> str:
    """Apply a softmax, or its logarithm to limited arguments: int8 holds logarithms of -16 and more."""
    op = n.rng.choice(["Softmax", "LogSoftmax"])
    x = n.x if op == "Softmax" else n.node("Clip", n.x, n.constant(-5), n.constant(5))
    return n.node(op, x, axis=n.rng.choice([1, -1]))


def by_constant(n: Network) -> str:
    """Combine the map with a constant that broadcasts."""
    shape = n.maps[-1][1]
    broadcast = [extent if n.rng.random() < 0.5 else 1 for extent in shape][n.rng.randrange(len(shape)) :]
    values = n.constant(n.floats(*broadcast))
    if n.rng.random() < 0.3:
        values = n.node(n.rng.choice(["Abs", "Erf", "Identity", "Round", "Sigmoid", "Sin", "Tanh"]), values)
    op = n.rng.choice(["Add", "Mul", "Sub", "Max", "Min", "Div"])
    if op == "Div":
        return n.node(op, n.x, n.constant(1 + n.draw.random(broadcast)))
    return n.node(op, *([n.x, values] if n.rng.random() < 0.7 else [values, n.x]))


def earlier(n: Network) -> str | None:
    """Combine the map with an earlier one."""
    shape = n.maps[-1][1]
    others = [(name, s) for name, s in n.maps[:-1] if len(s) == len(shape) and s[2:] == shape[2:]]
    if not others:
        return None
    name, other = n.rng.choice(others)
    if other != shape:
        return n.node("Concat", n.x, name, axis=1) if other[1] + shape[1] <= 2 * MOST_CHANNELS else None
    op = n.rng.choice(["Add", "Mul", "Sub", "Max", "Min", "Sum", "Mean", "Div"])
    if op == "Div":
        name = n.node("Add", n.node("Abs", name), n.constant(0.7))
    return n.node(op, n.x, name)


def selection(n: Network) -> str:
    """Select elements by comparisons."""
    limit, halves = n.constant(round(n.rng.uniform(-0.5, 0.5), 2)), n.constant(0.5)
    op = n.rng.choice(["Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
    mask = n.node(op, n.x, limit)
    both = n.node(n.rng.choice(["And", "Or"]), mask, n.node("Not", n.node("Less", n.x, halves)))
    is_same = n.node("Equal", n.node("Max", n.x, limit), n.x)
    return n.rng.choice([
        lambda: n.node("Where", mask, n.x, halves), lambda: n.node("Mul", n.x, n.node("Cast", both, to=TensorProto.FLOAT)),
        lambda: n.node("Where", is_same, n.x, n.node("Neg", n.x)),
    ])()  # fmt: skip


def reduction(n: Network) -> str:
    """Reduce axes, and add the result to the map."""
    rank = len(n.maps[-1][1])
    ops = "L1 L2 LogSumExp Max Mean Min Sum SumSquare".split()
    chosen = n.integers(*sorted(n.rng.sample(range(1, rank), n.rng.randint(1, rank - 1))))
    found = n.node(f"Reduce{n.rng.choice(ops)}", n.x, chosen, keepdims=1)
    if n.rng.random() < 0.2:
        found = n.node(
            "ReduceProd", n.node("Slice", n.x, n.integers(0), n.integers(3), n.integers(1)), n.integers(1), keepdims=1
        )
    if n.rng.random() < 0.2:
        found = n.node("TopK", n.x, n.integers(1), outputs=2, axis=1, largest=n.rng.randint(0, 1))[0]
    return n.node("Add", n.x, n.node("Mul", found, n.constant(0.1)))


def of_indices(n: Network) -> str:
    """Select by the index of an extreme element: a row of a constant table, or a one in a row of zeros."""
    axis = n.rng.randrange(1, len(n.maps[-1][1]))
    depth = n.maps[-1][1][axis]
    index = n.node(n.rng.choice(["ArgMax", "ArgMin"]), n.x, axis=axis, keepdims=0)
    return n.rng.choice([
        lambda: n.node("Gather", n.weights(depth, n.rng.randint(1, 6)), index, axis=0),
        lambda: n.node("OneHot", index, n.integers(depth), n.constant([-0.5, 1]), axis=n.rng.choice([1, -1])),
        lambda: n.node("Mul", n.x, n.node("OneHot", index, n.integers(depth), n.constant([0.5, 1]), axis=axis)),
    ])()  # fmt: skip


def moved(n: Network) -> str:
    """Copy elements in another order."""
    shape = n.maps[-1][1]
    axis = n.rng.randrange(1, len(shape))
    extent = shape[axis]
    at = n.rng.randint(0, extent - 1)
    begin, end, along, step = n.integers(at), n.integers(extent), n.integers(axis), n.rng.choice([1, 2])
    pads, short = [n.rng.randint(0, 2) for _ in shape[2:]], [n.rng.randint(-1, 2) for _ in shape[2:]]
    mode = n.rng.choice(["constant", "reflect", "edge", "wrap"])
    amounts = [0, 0, *pads, 0, 0, *(short if mode in ("constant", "edge") else pads)]
    middle = n.rng.randint(1, max(1, extent - 1))
    first, second = n.integers(middle, extent - middle), n.integers(*(2 if a == axis else 1 for a in range(len(shape))))
    return n.rng.choice([
        lambda: n.node("Slice", n.x, begin, end, along, n.integers(step)),
        lambda: n.node("Slice", n.x, n.integers(-1), n.integers(-(2**40)), along, n.integers(-1)),
        lambda: n.node("Gather", n.x, n.integers(*(n.rng.randrange(extent) for _ in range(4))), axis=axis),
        lambda: n.x if extent == middle else n.node("Concat", *n.node("Split", n.x, first, outputs=2, axis=axis), axis=axis),
        lambda: n.node("TopK", n.x, n.integers(min(3, extent)), outputs=2, axis=axis, largest=n.rng.randint(0, 1))[0],
        lambda: n.node("CumSum", n.node("Mul", n.x, n.constant(0.2)), n.constant(axis, np.int64)),
        lambda: n.node("Tile", n.x, second),
        lambda: n.node("Pad", n.x, n.integers(*amounts), *([n.constant(at / 4)] if mode == "constant" else []), mode=mode),
        lambda: n.node("Pad", n.x, n.integers(*amounts), *([n.constant(at / 4)] if mode == "constant" else []), mode=mode),
        lambda: n.node("Squeeze", n.node("Unsqueeze", n.x, n.integers(axis)), n.integers(axis)),
        lambda: n.node("Add", n.x, n.node("Expand", n.node("ReduceMean", n.x, along), n.node("Shape", n.x))),
        lambda: n.node("Reshape", n.x, n.node("Concat", n.integers(0, 0), n.integers(-1), axis=0)),
    ])()  # fmt: skip


def blocks(n: Network) -> str | None:
    c, h, w = n.maps[-1][1][1:]
    if c % 4 == 0 and n.rng.random() < 0.6:
        return n.node("DepthToSpace", n.x, blocksize=2, mode=n.rng.choice(["DCR", "CRD"]))
    return n.node("SpaceToDepth", n.x, blocksize=2) if h % 2 == w % 2 == 0 else None


def resized(n: Network) -> str | None:
    shape = n.maps[-1][1]
    if max(shape[2:]) > MOST_ROWS // 2:
        return None
    mode = n.rng.choice(["nearest", "linear", "cubic"])
    ways = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"]
    rounding = n.rng.choice(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
    how = {"mode": mode, "coordinate_transformation_mode": n.rng.choice(ways)}
    how |= {"nearest_mode": rounding} if mode == "nearest" else {}
    if n.rng.random() < 0.5:
        scales = [1, 1, *(n.rng.choice([1, 1.5, 2, 0.75]) for _ in shape[2:])]
        return n.node("Resize", n.x, "", n.constant(scales), **how)
    return n.node("Resize", n.x, "", "", n.integers(*shape[:2], *(n.rng.randint(1, 2 * e) for e in shape[2:])), **how)


def product(n: Network) -> str:
    """Multiply the map with a constant matrix or vector, from either side, or with itself."""
    shape = n.maps[-1][1]
    rows, columns, letters = shape[-2], shape[-1], "abcd"[: len(shape) - 1]
    swapped = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    return n.rng.choice([
        lambda: n.node("MatMul", n.x, n.weights(columns, n.rng.randint(1, 9))),
        lambda: n.node("MatMul", n.weights(n.rng.randint(1, 9), rows), n.x),
        lambda: n.node("Einsum", n.x, n.weights(columns, 5), equation=f"{letters}x,xy->{letters}y"),
        lambda: n.node("MatMul", n.node("Softmax", n.x), n.node("Transpose", n.x, perm=swapped)),
    ])()  # fmt: skip


def dense(n: Network) -> str:
    """Add a head: a flattening or means, a dense layer, and perhaps a choice."""
    if n.rng.random() < 0.5:
        flat = n.node("Flatten", n.node("GlobalAveragePool", n.x))
    else:
        flat = n.node("Flatten", n.x)
    inputs = len(run(n.file(flat, n.shape), n.example)[0])  # type: ignore[index]
    way, alpha = n.rng.randint(0, 1), n.rng.choice([1.0, 0.5])
    weights, bias = n.weights(*((6, inputs) if way else (inputs, 6))), n.weights(6)
    y = n.node("Gemm", flat, weights, bias, transB=way, alpha=alpha)
    return n.rng.choice([
        lambda: y, lambda: n.node("Softmax", y), lambda: n.node("LogSoftmax", n.node("Relu", y)),
        lambda: n.node(n.rng.choice(["ArgMax", "ArgMin"]), y, axis=1, keepdims=n.rng.randint(0, 1)),
        lambda: n.node("TopK", y, n.integers(n.rng.choice([1, 3])), outputs=2)[n.rng.randint(0, 1)],
    ])()  # fmt: skip


def recurrent(n: Network) -> str:
    """Add a recurrent layer on the steps of a map [1, c, steps], and its output or a final state.

    In half of the networks, its first states are computed from the map.
    """
    op, cells, direction = (
        n.rng.choice(list(STATES)),
        n.rng.randint(1, 6),
        n.rng.choice(["forward", "reverse", "bidirectional"]),
    )
    count, rows = 1 + (direction == "bidirectional"), STATES[op] * cells
    more = {"linear_before_reset": n.rng.randint(0, 1)} if op == "GRU" else {}
    sequence = n.node("Transpose", n.x, perm=[2, 0, 1])
    weights = [n.weights(count, rows, n.maps[-1][1][1]), n.weights(count, rows, cells), n.weights(count, 2 * rows)]
    states = 1 + (op == "LSTM")
    means = n.node("ReduceMean", sequence, n.integers(0), keepdims=1)
    products = [n.node("MatMul", means, n.weights(n.maps[-1][1][1], cells)) for _ in range(count * states)]
    first = [n.node("Concat", *products[at::states], axis=0) for at in range(states)]
    given, how = ["", *first] if n.rng.random() < 0.5 else [], {"hidden_size": cells, "direction": direction, **more}
    y, *final = n.node(op, sequence, *weights, *given, outputs=1 + (states if given else 1), **how)
    if n.rng.random() < 0.5:
        return n.node("Reshape", n.rng.choice(final), n.integers(1, -1))
    together = n.node("Transpose", y, perm=[0, 2, 1, 3])
    return n.node("Reshape", together, n.integers(0, 0, -1))


SHARED = [
    unary,
    unary,
    unary,
    norm,
    by_constant,
    earlier,
    selection,
    reduction,
    of_indices,
    moved,
    moved,
    convolution,
    pool,
    of_pixels,
    product,
]
LAYERS: dict[int, list[Layer]] = {
    3: [*SHARED, transposed, resized],
    4: [*SHARED, convolution, transposed, resized, resized, blocks],
}
HEADS: dict[int, list[Layer]] = {3: [recurrent, recurrent, dense], 4: [dense, dense, unary]}
