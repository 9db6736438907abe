"""One function per op kind that adds a random op of that kind to a network under construction."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tinyweave.ir import Quant, Tensor
from tinyweave.ops.window import same_padding

from .growth import Growth

ACTIVATIONS = ("none", "none", "relu", "relu6", "relu_n1_to_1")


def window_attrs(g: Growth, h: int, w: int, dilate: bool) -> dict:
    """Return kernel, stride, dilation and padding for an h x w map; padding is SAME or VALID, which every format can hold."""
    dilation = (g.rng.randint(1, 2), g.rng.randint(1, 2)) if dilate and g.rng.random() < 0.2 else (1, 1)
    same = g.rng.random() < 0.6
    kernel, stride, padding = [], [], []
    for extent, d in zip((h, w), dilation, strict=True):
        limit = extent if not same else 7
        k = g.rng.choice([n for n in (1, 2, 3, 5, 7) if (n - 1) * d + 1 <= limit] or [1])
        s = g.rng.choice([1, 1, 2, 3]) if dilation == (1, 1) else 1
        out = -(-extent // s) if same else (extent - (k - 1) * d - 1) // s + 1
        total = max(0, (out - 1) * s + (k - 1) * d + 1 - extent) if same else 0
        kernel.append(k)
        stride.append(s)
        padding.append((total // 2, total - total // 2))
    if dilation != (1, 1):
        stride = [1, 1]
    return {"kernel": tuple(kernel), "stride": tuple(stride), "dilation": dilation, "padding": tuple(padding)}


def usual_window(g: Growth, h: int, w: int) -> dict:
    """Return common windows: square, with equal strides, padded to SAME."""
    side, stride, padding = g.rng.choice((3, 3, 5, 7)), g.rng.choice((1, 2)), []
    for extent in (h, w):
        total = max(0, (-(-extent // stride) - 1) * stride + side - extent)
        padding.append((total // 2, total - total // 2))
    return {"kernel": (side, side), "stride": (stride, stride), "dilation": (1, 1), "padding": tuple(padding)}


def spatial(g: Growth) -> Tensor | None:
    names = [n for n in g.live if len(g.tensors[n].shape) == 4]
    return g.tensors[g.rng.choice(names)] if names else None


def anything(g: Growth) -> Tensor:
    return g.tensors[g.rng.choice(g.live)]


def conv_2d(g: Growth) -> None:
    if (x := spatial(g)) is None:
        return
    attrs = window_attrs(g, x.shape[1], x.shape[2], dilate=True)
    kernel = attrs.pop("kernel")
    c_in, c_out = x.shape[3], g.rng.randint(1, 12)
    groups = g.rng.choice([n for n in range(1, c_in + 1) if c_in % n == 0]) if g.rng.random() < 0.15 else 1
    c_out = max(1, c_out // groups) * groups
    shape = (c_out, *kernel, c_in // groups)
    weights, bias, quant = g.weights(shape, 0, kernel[0] * kernel[1] * c_in // groups, x)
    g.emit("conv_2d", [x.name, weights, bias], attrs | {"activation": g.rng.choice(ACTIVATIONS)}, quant)


def depthwise_conv_2d(g: Growth) -> None:
    if (x := spatial(g)) is None:
        return
    usual = g.usual and g.rng.random() < g.usual
    attrs = usual_window(g, *x.shape[1:3]) if usual else window_attrs(g, x.shape[1], x.shape[2], dilate=True)
    kernel = attrs.pop("kernel")
    shape = (1, *kernel, x.shape[3] * g.rng.choice([1, 1, 1, 2, 3]))
    weights, bias, quant = g.weights(shape, 3, kernel[0] * kernel[1], x)
    g.emit(
        "depthwise_conv_2d",
        [x.name, weights, bias],
        attrs | {"activation": g.rng.choice(ACTIVATIONS)},
        quant,
    )


def fully_connected(g: Growth) -> None:
    x = anything(g)
    width = x.shape[-1] if x.shape else 1
    if x.shape and len(x.shape) != 2:
        width = x.elements
        is_map = len(x.shape) == 4 and x.shape[0] == 1
        if not is_map or g.rng.random() < 0.4:  # else the layer itself flattens the map, whose rows it may take one by one
            reshape_to(g, x, (1, width))
            x = g.tensors[g.live[-1]]
    weights, bias, quant = g.weights((g.rng.randint(1, 16), width), 0, width, x, biased=g.rng.random() < 0.7)
    g.emit("fully_connected", [x.name, weights, bias], {"activation": g.rng.choice(ACTIVATIONS), "keep_num_dims": False}, quant)


def reshape_to(g: Growth, x: Tensor, shape: tuple[int, ...]) -> None:
    target = g.constant("shape", np.array(shape, np.int32))
    g.emit("reshape", [x.name, target], {"new_shape": shape}, x.quant)


def reshape(g: Growth) -> None:
    x = anything(g)
    divisors = [n for n in range(1, x.elements + 1) if x.elements % n == 0]
    h = g.rng.choice(divisors)
    w = g.rng.choice([n for n in divisors if (x.elements // h) % n == 0])
    reshape_to(g, x, (1, h, w, x.elements // h // w))


def binary(kind: str) -> Callable[[Growth], None]:
    def grow(g: Growth) -> None:
        x = anything(g)
        same = [n for n in g.live if g.tensors[n].shape == x.shape]
        if g.rng.random() < 0.2:
            shape = (*[1] * (len(x.shape) - 1), x.shape[-1])
            y = g.constant("operand", g.numpy.integers(-128, 128, shape, dtype=np.int8), g.quant())
        else:
            y = g.rng.choice(same)
        a, b = (x.scale, g.tensors[y].scale)
        if kind in ("minimum", "maximum"):
            g.emit(kind, [x.name, y], {}, x.quant)
            return
        scale = max(a, b) * g.rng.uniform(0.8, 2.0) if kind != "mul" else a * b * 60
        quant = Quant((float(np.float32(scale)),), (g.rng.randint(-128, 127),))
        if 2.0**-30 < scale < 2.0**30:  # products of products can exceed the range of scales
            g.emit(kind, [x.name, y], {"activation": g.rng.choice(ACTIVATIONS)}, quant)

    return grow


def squared_difference(g: Growth) -> None:
    x = anything(g)
    y = g.rng.choice([name for name in g.live if g.tensors[name].shape == x.shape])
    scale = max(x.scale, g.tensors[y].scale) ** 2 * 60
    if 2.0**-30 < scale < 2.0**30:
        g.emit("squared_difference", [x.name, y], {}, Quant((float(np.float32(scale)),), (g.rng.randint(-128, 127),)))


def pool(kind: str) -> Callable[[Growth], None]:
    def grow(g: Growth) -> None:
        if (x := spatial(g)) is None:
            return
        attrs = window_attrs(g, x.shape[1], x.shape[2], dilate=False)
        del attrs["dilation"]
        g.emit(kind, [x.name], attrs | {"activation": g.rng.choice(ACTIVATIONS)}, x.quant)

    return grow


def mean(g: Growth) -> None:
    x = anything(g)
    axes = g.rng.choice([[1, 2], [2, 1], [1], [3], [1, 2, 3]]) if len(x.shape) == 4 else [len(x.shape) - 1]
    quant = x.quant if g.rng.random() < 0.5 else g.quant()
    g.emit("mean", [x.name, g.constant("axes", np.array(axes, np.int32))], {"keep_dims": g.rng.random() < 0.5}, quant)


def reduce_extremum(kind: str) -> Callable[[Growth], None]:
    def grow(g: Growth) -> None:
        x = anything(g)
        axes = g.rng.sample(range(len(x.shape)), g.rng.randint(1, len(x.shape)))
        g.emit(kind, [x.name, g.constant("axes", np.array(axes, np.int32))], {"keep_dims": True}, x.quant)

    return grow


def arg(kind: str) -> Callable[[Growth], None]:
    """Return the grower of arg_max or arg_min."""

    def grow(g: Growth) -> None:
        x, dtype = anything(g), g.rng.choice(["int32", "int64"])
        axis = g.constant("axis", np.array(g.rng.randrange(len(x.shape)), np.int32))
        g.emit(kind, [x.name, axis], dtype=dtype)
        out = g.live.pop()  # no op reads an index
        g.tensors[out] = Tensor(out, g.tensors[out].shape, dtype)

    return grow


def prelu(g: Growth) -> None:
    x = anything(g)
    if len(x.shape) > 4:
        return
    shape = (*[1] * (len(x.shape) - 2), x.shape[-1])
    alpha = g.constant("alpha", g.numpy.integers(-128, 128, shape, dtype=np.int8), g.quant())
    g.emit("prelu", [x.name, alpha])


def leaky_relu(g: Growth) -> None:
    g.emit("leaky_relu", [anything(g).name], {"alpha": float(np.float32(g.rng.uniform(0, 0.5)))})


def hard_swish(g: Growth) -> None:
    x = anything(g)
    quant = Quant((float(np.float32(x.scale * g.rng.uniform(0.4, 1.5))),), (g.rng.randint(-128, 127),))
    g.emit("hard_swish", [x.name], {}, quant)


def pad(g: Growth) -> None:
    if (x := spatial(g)) is None:
        return
    paddings = np.array([[0, 0]] + [[g.rng.randint(0, 2), g.rng.randint(0, 2)] for _ in range(3)], np.int32)
    g.emit("pad", [x.name, g.constant("paddings", paddings)], {}, x.quant)


def concatenation(g: Growth) -> None:
    x = anything(g)
    axis = g.rng.randrange(len(x.shape))
    parts = [n for n in g.live if g.tensors[n].quant == x.quant and matches(g.tensors[n].shape, x.shape, axis)]
    chosen = [x.name, *(g.rng.choice(parts) for _ in range(g.rng.randint(0, 2)))]
    if len(chosen) == 1:
        return
    g.emit("concatenation", list(chosen), {"axis": axis, "activation": "none"}, x.quant)


def matches(a: tuple[int, ...], b: tuple[int, ...], axis: int) -> bool:
    return len(a) == len(b) and all(i == axis or p == q for i, (p, q) in enumerate(zip(a, b, strict=True)))


def integers(g: Growth, values: object) -> str:
    return g.constant("numbers", np.array(values, np.int32))


def cuttable(g: Growth) -> tuple[Tensor, int] | None:
    """Return a tensor and one of its axes longer than 1."""
    x = anything(g)
    axes = [axis for axis, extent in enumerate(x.shape) if extent > 1]
    return (x, g.rng.choice(axes)) if axes else None


def split(g: Growth) -> None:
    if (found := cuttable(g)) is not None:
        x, axis = found
        count = g.rng.choice([n for n in range(1, x.shape[axis] + 1) if x.shape[axis] % n == 0 and n < 7] or [1])
        g.emit("split", [integers(g, axis - g.rng.choice([0, len(x.shape)])), x.name], {}, x.quant, count=count)


def split_v(g: Growth) -> None:
    if (found := cuttable(g)) is not None:
        x, axis = found
        cut = g.rng.randint(1, x.shape[axis] - 1)
        sizes = g.rng.choice([[cut, x.shape[axis] - cut], [-1, cut], [cut, -1]])
        g.emit("split_v", [x.name, integers(g, sizes), integers(g, axis)], {}, x.quant, count=2)


def unpack(g: Growth) -> None:
    if (found := cuttable(g)) is not None and found[0].shape[found[1]] < 6:
        g.emit("unpack", [found[0].name], {"axis": found[1]}, found[0].quant, count=found[0].shape[found[1]])


def slice_(g: Growth) -> None:
    x = anything(g)
    begin = [g.rng.randrange(extent) for extent in x.shape]
    size = [g.rng.choice([-1, g.rng.randint(1, extent - b)]) for extent, b in zip(x.shape, begin, strict=True)]
    if x.shape:
        g.emit("slice", [x.name, integers(g, begin), integers(g, size)], {}, x.quant)


def strided_slice(g: Growth) -> None:
    x, vectors = anything(g), []
    for extent in x.shape:
        first, last = sorted((g.rng.randrange(extent), g.rng.randrange(extent)))
        step = g.rng.choice([1, 1, 2, 3])
        vectors.append((first, last + 1, step) if g.rng.random() < 0.7 else (last, first - extent - 1, -step))
    if 0 < len(x.shape) < 5:
        masks = {f"{name}_mask": 0 for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
        masks |= {name: g.rng.choice([0, 0, g.rng.randrange(1 << len(x.shape))]) for name in ("begin_mask", "end_mask")}
        if len(x.shape) > 1:
            masks["shrink_axis_mask"] = g.rng.choice([0, 0, 1 << g.rng.randrange(len(x.shape))])
        for axis, (begin, end, _) in enumerate(vectors):
            if masks["shrink_axis_mask"] >> axis & 1:
                vectors[axis] = (begin, end, 1)
        operands = [integers(g, numbers) for numbers in zip(*vectors, strict=True)]
        g.emit("strided_slice", [x.name, *operands], {**masks, "offset": False}, x.quant)


def tile(g: Growth) -> None:
    x = anything(g)
    g.emit("tile", [x.name, integers(g, [g.rng.choice([1, 1, 2, 3]) for _ in x.shape])], {}, x.quant)


def broadcast_to(g: Growth) -> None:
    x = anything(g)
    shape = [g.rng.randint(1, 5) if extent == 1 else extent for extent in x.shape]
    g.emit("broadcast_to", [x.name, integers(g, shape)], {}, x.quant)


def mirror_pad(g: Growth) -> None:
    x, mode = anything(g), g.rng.choice(["reflect", "symmetric"])
    most = [min(2, extent - (mode == "reflect")) for extent in x.shape]
    paddings = [[g.rng.randint(0, m), g.rng.randint(0, m)] for m in most]
    if 0 < len(x.shape) < 5:
        g.emit("mirror_pad", [x.name, integers(g, paddings)], {"mode": mode}, x.quant)


def padv2(g: Growth) -> None:
    if (x := spatial(g)) is not None:
        paddings = [[0, 0]] + [[g.rng.randint(0, 2), g.rng.randint(0, 2)] for _ in range(3)]
        value = g.constant("value", np.array([g.rng.randint(-128, 127)], np.int8), x.quant)
        g.emit("padv2", [x.name, integers(g, paddings), value], {}, x.quant)


def resize(kind: str) -> Callable[[Growth], None]:
    def grow(g: Growth) -> None:
        if (x := spatial(g)) is not None:
            size = integers(g, [g.rng.choice([1, 2 * extent, g.rng.randint(1, 15)]) for extent in x.shape[1:3]])
            corners, centers = g.rng.choice([(False, False), (True, False), (False, True)])
            g.emit(kind, [x.name, size], {"align_corners": corners, "half_pixel_centers": centers}, x.quant)

    return grow


def gather(g: Growth) -> None:
    x = anything(g)
    if x.shape:
        axis = g.rng.randrange(len(x.shape))
        indices = [g.rng.randrange(x.shape[axis]) for _ in range(g.rng.randint(1, 8))]
        operand = integers(g, indices[0] if g.rng.random() < 0.2 and len(x.shape) > 1 else indices)
        g.emit("gather", [x.name, operand], {"axis": axis, "batch_dims": 0}, x.quant)


def blocks(kind: str) -> Callable[[Growth], None]:
    """Return the grower of depth_to_space or space_to_depth."""

    def grow(g: Growth) -> None:
        if (x := spatial(g)) is not None:
            divided = x.shape[1:3] if kind == "space_to_depth" else x.shape[3:]
            power = 1 if kind == "space_to_depth" else 2
            fitting = [n for n in range(1, 5) if all(extent % n**power == 0 for extent in divided)]
            g.emit(kind, [x.name], {"block_size": fitting[-1]}, x.quant)

    return grow


def space_to_batch_nd(g: Growth) -> None:
    if (x := spatial(g)) is not None:
        block = [g.rng.randint(1, 3) for _ in range(2)]
        before = [g.rng.randint(0, 2) for _ in range(2)]
        paddings = [[p, -(extent + p) % b] for p, extent, b in zip(before, x.shape[1:3], block, strict=True)]
        g.emit("space_to_batch_nd", [x.name, integers(g, block), integers(g, paddings)], {}, x.quant)


def batch_to_space_nd(g: Growth) -> None:
    if (x := spatial(g)) is not None:
        pairs = [(a, b) for a in range(1, 4) for b in range(1, 4) if x.shape[0] % (a * b) == 0]
        block = g.rng.choice(pairs[-3:])
        crops = [[g.rng.randint(0, min(1, extent * b - 1)), 0] for extent, b in zip(x.shape[1:3], block, strict=True)]
        g.emit("batch_to_space_nd", [x.name, integers(g, block), integers(g, crops)], {}, x.quant)


def transpose_conv(g: Growth) -> None:
    if (x := spatial(g)) is None:
        return
    kernel, stride = ([g.rng.randint(1, 4) for _ in range(2)] for _ in range(2))
    if g.rng.random() < 0.5:
        size = [extent * s for extent, s in zip(x.shape[1:3], stride, strict=True)]
        padding = tuple(same_padding(e, k, s) for e, k, s in zip(size, kernel, stride, strict=True))
    else:
        size = [(extent - 1) * s + k for extent, s, k in zip(x.shape[1:3], stride, kernel, strict=True)]
        padding = ((0, 0), (0, 0))
    channels = g.rng.randint(1, 9)
    shape = (channels, kernel[0], kernel[1], x.shape[3])
    weights, bias, quant = g.weights(shape, 0, kernel[0] * kernel[1] * x.shape[3] // (stride[0] * stride[1]), x)
    wanted = integers(g, [x.shape[0], *size, channels])
    attrs = {"stride": tuple(stride), "padding": padding, "activation": g.rng.choice(ACTIVATIONS)}
    g.emit("transpose_conv", [wanted, weights, x.name, bias], attrs, quant)


def batch_matmul(g: Growth) -> None:
    x, turned = anything(g), g.rng.random() < 0.5
    if 2 <= len(x.shape) <= 5:
        depth, columns = x.shape[-1], g.rng.randint(1, 6)
        data = g.numpy.integers(-128, 128, (columns, depth) if turned else (depth, columns), dtype=np.int8)
        y = g.constant("matrix", data, g.quant())
        scale = float(np.float32(x.scale * g.tensors[y].scale * 90 * depth**0.5))
        quant = Quant((scale,), (g.rng.randint(-128, 127),))
        g.emit("batch_matmul", [x.name, y], {"adj_x": False, "adj_y": turned}, quant)


def softmax(g: Growth) -> None:
    x = anything(g)
    if len(x.shape) <= 4 and 2.0**-26 < x.scale < 15 and x.shape[-1] < 512:  # LiteRT aborts on 512 equal values
        g.emit("softmax", [x.name], {"beta": 1.0}, Quant((1 / 256,), (-128,)))


def log_softmax(g: Growth) -> None:
    x = anything(g)
    if 1 <= len(x.shape) <= 4 and 2.0**-26 < x.scale < 15:
        g.emit("log_softmax", [x.name], {}, Quant((1 / 16,), (127,)))


def logistic(g: Growth) -> None:
    g.emit("logistic", [anything(g).name], {}, Quant((1 / 256,), (-128,)))


def unary(kind: str) -> Callable[[Growth], None]:
    return lambda g: void(g.emit(kind, [anything(g).name]))


def transpose(g: Growth) -> None:
    x = anything(g)
    order = list(range(len(x.shape)))
    g.rng.shuffle(order)
    g.emit("transpose", [x.name, g.constant("perm", np.array(order, np.int32))], {}, x.quant)


def variable(g: Growth) -> None:
    """Add a variable that is read before or after its assignment, and sometimes again."""
    x = anything(g)
    assert x.quant is not None
    state = g.state(x.shape, x.quant, first=g.numpy.integers(-128, 128, x.shape, dtype=np.int8))
    for step in g.rng.choice(["ra", "ar", "rar", "raa", "ara"]):
        if step == "a":
            same = [n for n in g.live if (g.tensors[n].shape, g.tensors[n].quant) == (x.shape, x.quant)]
            g.assign(g.rng.choice(same), state)
        else:
            g.emit("read_variable", [state], None, x.quant)
            if g.rng.random() < 0.5:
                g.emit("relu", [g.live[-1]], None, x.quant)


def unidirectional_sequence_lstm(g: Growth) -> None:
    x = anything(g)
    time = g.rng.choice([n for n in (1, 2, 3, 4, 6) if x.elements % n == 0])
    reshape_to(g, x, (1, time, x.elements // time))
    x, cells = g.tensors[g.live[-1]], g.rng.randint(1, 8)
    quant = Quant((1 / 128,), (g.rng.choice([0, -1]),))

    def matrices(columns: int, source: float) -> list[str | None]:
        scales = (float(np.float32(g.rng.uniform(0.5, 4) / (source * 75 * 75 * columns**0.5))) for _ in range(4))
        data = (g.numpy.integers(-127, 128, (cells, columns), dtype=np.int8) for _ in range(4))
        return [g.constant("weights", d, Quant((s,), (0,))) for d, s in zip(data, scales, strict=True)]

    weights, recurrent = matrices(x.shape[2], x.scale), matrices(cells, quant.scale[0])
    bias: list[str | None] = [g.constant("bias", g.numpy.integers(-999, 999, cells, dtype=np.int32)) for _ in range(4)]
    states = [g.state((1, cells), quant), g.state((1, cells), Quant((2.0 ** -g.rng.randint(10, 14),), (0,)), "int16")]
    operands = [x.name, *weights, *recurrent, *[None] * 3, *bias, None, None, *states, *[None] * 4]
    attrs = {"activation": "tanh", "cell_clip": g.rng.choice([0.0, 10.0]), "time_major": False}
    g.emit("unidirectional_sequence_lstm", operands, attrs, quant)


def void(_: object) -> None:
    return None


Grower = Callable[[Growth], None]
Growers = dict[str, tuple[float, Grower]]
GROWERS: Growers = {
    "conv_2d": (4, conv_2d),
    "depthwise_conv_2d": (3, depthwise_conv_2d),
    "fully_connected": (0.7, fully_connected),
    "add": (2, binary("add")),
    "sub": (0.5, binary("sub")),
    "mul": (1, binary("mul")),
    "squared_difference": (0.3, squared_difference),
    "minimum": (0.4, binary("minimum")),
    "maximum": (0.4, binary("maximum")),
    "prelu": (0.5, prelu),
    "leaky_relu": (0.4, leaky_relu),
    "hard_swish": (0.4, hard_swish),
    "reduce_max": (0.3, reduce_extremum("reduce_max")),
    "reduce_min": (0.2, reduce_extremum("reduce_min")),
    "arg_max": (0.2, arg("arg_max")),
    "average_pool_2d": (1, pool("average_pool_2d")),
    "max_pool_2d": (1, pool("max_pool_2d")),
    "mean": (0.5, mean),
    "pad": (1, pad),
    "reshape": (0.7, reshape),
    "concatenation": (1.5, concatenation),
    "split": (0.6, split),
    "split_v": (0.4, split_v),
    "unpack": (0.3, unpack),
    "slice": (0.5, slice_),
    "strided_slice": (0.6, strided_slice),
    "tile": (0.3, tile),
    "broadcast_to": (0.3, broadcast_to),
    "mirror_pad": (0.4, mirror_pad),
    "padv2": (0.4, padv2),
    "resize_nearest_neighbor": (0.5, resize("resize_nearest_neighbor")),
    "resize_bilinear": (0.5, resize("resize_bilinear")),
    "gather": (0.5, gather),
    "depth_to_space": (0.3, blocks("depth_to_space")),
    "space_to_depth": (0.3, blocks("space_to_depth")),
    "space_to_batch_nd": (0.4, space_to_batch_nd),
    "batch_to_space_nd": (0.4, batch_to_space_nd),
    "transpose_conv": (0.8, transpose_conv),
    "batch_matmul": (0.5, batch_matmul),
    "softmax": (0.4, softmax),
    "log_softmax": (0.2, log_softmax),
    "logistic": (0.4, logistic),
    "relu": (0.5, unary("relu")),
    "relu6": (0.5, unary("relu6")),
    "relu_n1_to_1": (0.3, unary("relu_n1_to_1")),
    "quantize": (0.5, unary("quantize")),
    "transpose": (0.6, transpose),
    "variable": (0.6, variable),
    "unidirectional_sequence_lstm": (0.3, unidirectional_sequence_lstm),
}
