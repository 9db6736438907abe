"""Random valid int8 networks. In: a seed. Out: a Graph; the same seed gives the same graph.

A network grows from its inputs: each step picks an op kind that some live tensor can feed, with random attributes and
random quantisation chosen so that the outputs spread over the int8 range. Branches meet again in add, mul and concatenation.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from tinyweave.ir import Graph, Op, Quant, Tensor, verify
from tinyweave.ops import SPECS

MAX_ELEMENTS = 6000
ACTIVATIONS = ("none", "none", "relu", "relu6", "relu_n1_to_1")


class Growth:
    """A graph under construction."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.numpy = np.random.default_rng(seed)
        self.tensors: dict[str, Tensor] = {}
        self.ops: list[Op] = []
        self.init: list[Op] = []
        self.live: list[str] = []

    def add_tensor(self, tensor: Tensor) -> str:
        self.tensors[tensor.name] = tensor
        return tensor.name

    def quant(self) -> Quant:
        return Quant(
            (float(np.float32(self.rng.uniform(0.004, 0.3))),), (self.rng.choice([-128, 0, self.rng.randint(-128, 127)]),)
        )

    def input(self) -> str:
        shape = (1, self.rng.randint(1, 12), self.rng.randint(1, 12), self.rng.randint(1, 9))
        name = self.add_tensor(Tensor(f"input_{len(self.tensors)}", shape, "int8", self.quant()))
        self.live.append(name)
        return name

    def constant(self, suffix: str, data: np.ndarray, quant: Quant | None = None) -> str:
        return self.add_tensor(Tensor(f"{suffix}_{len(self.tensors)}", data.shape, str(data.dtype), quant, data, "constant"))

    def emit(
        self, kind: str, inputs: list[str | None], attrs: dict | None = None, quant: Quant | None = None, dtype: str = "int8"
    ) -> str:
        """Append an op; the output's shape comes from the op's own rule, its quantisation is random unless given."""
        name = f"{kind}_{len(self.ops)}"
        state = tuple(n for n in inputs if n is not None and self.tensors[n].role == "state" and kind != "read_variable")
        op = Op(name, kind, tuple(inputs), (f"{name}_out", *state), attrs or {})
        draft = Graph("draft", {**self.tensors, op.outputs[0]: Tensor(op.outputs[0], (), dtype, quant)}, (op,), (), ())
        shape = SPECS[kind].infer(draft, op)[0]
        self.add_tensor(Tensor(op.outputs[0], shape, dtype, quant or self.quant()))
        self.ops.append(op)
        self.live.append(op.outputs[0])
        return op.outputs[0]

    def state(self, shape: tuple[int, ...], quant: Quant, dtype: str = "int8", first: np.ndarray | None = None) -> str:
        """A variable; its first value is its zero point unless given."""
        name = self.add_tensor(Tensor(f"state_{len(self.tensors)}", shape, dtype, quant, role="state"))
        value = np.full(shape, quant.zero_point[0], dtype) if first is None else first
        self.add_tensor(Tensor(f"{name}.initial", shape, dtype, quant, value, "constant"))
        self.init.append(Op(f"init_{name}", "assign_variable", (f"{name}.initial",), (name,)))
        return name

    def assign(self, value: str, state: str) -> None:
        self.ops.append(Op(f"assign_variable_{len(self.ops)}", "assign_variable", (value,), (state,)))

    def weights(
        self, shape: tuple[int, ...], axis: int, taps: int, source: Tensor, biased: bool = True
    ) -> tuple[str, str | None, Quant]:
        """Random filters and bias; the output's quantisation puts most results inside the int8 range."""
        per_channel = self.rng.random() < 0.7
        channels = shape[axis]
        spread = self.numpy.uniform(0.002, 0.02, channels if per_channel else 1).astype(np.float32)
        data = self.numpy.integers(-127, 128, shape, dtype=np.int8)
        scales = tuple(float(s) for s in spread)
        weights = self.constant("weights", data, Quant(scales, (0,) * len(scales), axis if per_channel else None))
        bias = None
        if biased:
            biases = self.numpy.integers(-20000, 20000, channels, dtype=np.int32)
            quant = Quant(
                tuple(float(np.float32(source.scale * s)) for s in scales), (0,) * len(scales), 0 if per_channel else None
            )
            bias = self.constant("bias", biases, quant)
        reach = source.scale * float(spread.mean()) * 73 * 73 * max(1.0, taps**0.5)
        scale = float(np.float32(reach / 60 * self.rng.uniform(0.5, 2.0)))
        return weights, bias, Quant((scale,), (self.rng.randint(-128, 127),))


def window_attrs(g: Growth, h: int, w: int, dilate: bool) -> dict:
    """Kernel, stride, dilation and padding that fit an h x w map; SAME or VALID, so that every format can hold them."""
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


def spatial(g: Growth) -> Tensor | None:
    names = [n for n in g.live if len(g.tensors[n].shape) == 4 and g.tensors[n].shape[0] == 1]
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
    attrs = window_attrs(g, x.shape[1], x.shape[2], dilate=True)
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
        scale = max(a, b) * g.rng.uniform(0.8, 2.0) if kind != "mul" else a * b * 60
        quant = Quant((float(np.float32(scale)),), (g.rng.randint(-128, 127),))
        g.emit(kind, [x.name, y], {"activation": g.rng.choice(ACTIVATIONS)}, quant)

    return grow


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


def softmax(g: Growth) -> None:
    g.emit("softmax", [anything(g).name], {"beta": 1.0}, Quant((1 / 256,), (-128,)))


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
    """A variable that is read before or after a value is assigned to it, and sometimes once more."""
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


GROWERS: dict[str, tuple[float, Callable[[Growth], None]]] = {
    "conv_2d": (4, conv_2d),
    "depthwise_conv_2d": (3, depthwise_conv_2d),
    "fully_connected": (0.7, fully_connected),
    "add": (2, binary("add")),
    "sub": (0.5, binary("sub")),
    "mul": (1, binary("mul")),
    "average_pool_2d": (1, pool("average_pool_2d")),
    "max_pool_2d": (1, pool("max_pool_2d")),
    "mean": (0.5, mean),
    "pad": (1, pad),
    "reshape": (0.7, reshape),
    "concatenation": (1.5, concatenation),
    "softmax": (0.4, softmax),
    "logistic": (0.4, logistic),
    "relu": (0.5, unary("relu")),
    "relu6": (0.5, unary("relu6")),
    "quantize": (0.5, unary("quantize")),
    "transpose": (0.6, transpose),
    "variable": (0.6, variable),
    "unidirectional_sequence_lstm": (0.3, unidirectional_sequence_lstm),
}


def random_network(seed: int, steps: int | None = None) -> Graph:
    """A network of up to `steps` ops (3 to 14 when not given); its outputs are the tensors that nothing reads."""
    g = Growth(seed)
    inputs = [g.input() for _ in range(g.rng.choice([1, 1, 1, 2]))]
    kinds = list(GROWERS)
    weights = [GROWERS[kind][0] for kind in kinds]
    wanted = steps or g.rng.randint(3, 14)
    for _ in range(10 * wanted):
        if len(g.ops) >= wanted:
            break
        GROWERS[g.rng.choices(kinds, weights)[0]][1](g)
        g.live = [name for name in g.live if g.tensors[name].elements <= MAX_ELEMENTS][-8:]
        if not g.live:
            g.live = list(inputs)
    read = {name for op in g.ops for name in op.inputs}
    last = [op.outputs[0] for op in g.ops if op.outputs[0] not in read]
    outputs = tuple(name for name in last if g.tensors[name].role != "state") or (g.live[-1],)
    return verify(Graph(f"network_{seed}", g.tensors, tuple(g.ops), tuple(inputs), outputs, tuple(g.init)))
