"""Float networks for tests of quantisation: chains of convolutions, and random networks of every kind with a float form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinyweave.ir import Graph, Op, Tensor, verify
from tinyweave.ops import check, spec_for

Step = tuple[str, Sequence[str | None], dict[str, Any]]
WINDOW = {"stride": (1, 1), "dilation": (1, 1), "padding": ((1, 1), (1, 1))}
DENSE = {"activation": "none", "keep_num_dims": False}


def fixed(name: str, data: np.ndarray) -> Tensor:
    data = data.astype(np.int32) if data.dtype.kind == "i" else data.astype(np.float32)
    return Tensor(name, data.shape, str(data.dtype), None, data, "constant")


def float_graph(tensors: Sequence[Tensor], steps: Sequence[Step], x: tuple[int, ...] = (1, 8, 8, 4)) -> Graph:
    """Return a checked graph on `x`; step i (kind, inputs, attributes) computes `t<i>`. Outputs are the unread tensors."""
    known = {t.name: t for t in (Tensor("x", x, "float32"), *tensors)}
    made: list[Op] = []
    for number, (kind, inputs, attrs) in enumerate(steps):
        op = Op(f"{kind}_{number}", kind, tuple(inputs), (f"t{number}",), attrs)
        graph = Graph("net", known | {f"t{number}": Tensor(f"t{number}", (), "float32")}, (op,), (), ())
        (shape,) = spec_for(graph, op).infer(graph, op)
        known[f"t{number}"] = Tensor(f"t{number}", tuple(map(int, shape)), "float32")
        made.append(op)
    read = {name for op in made for name in op.inputs}
    ends = tuple(op.outputs[0] for op in made if op.outputs[0] not in read)
    return check(verify(Graph("net", known, tuple(made), ("x",), ends)))


def convolution(layers: int, activation: str = "relu", seed: int = 0) -> Graph:
    """Return a chain of 3x3 convolutions on 8x8x4, each with 8 channels."""
    rng, tensors, steps, source, channels = np.random.default_rng(seed), list[Tensor](), list[Step](), "x", 4
    for number in range(layers):
        tensors.append(fixed(f"w{number}", rng.normal(size=(8, 3, 3, channels)) / np.sqrt(9 * channels)))
        tensors.append(fixed(f"b{number}", rng.normal(size=8) / 4))
        last = "none" if number == layers - 1 and layers > 1 else activation
        steps.append(("conv_2d", (source, f"w{number}", f"b{number}"), WINDOW | {"activation": last}))
        source, channels = f"t{number}", 8
    return float_graph(tensors, steps)


def random_network(seed: int, length: int = 10) -> Graph:
    """Return a random float network on 8x8x4 that ends in a classifier."""
    rng = np.random.default_rng(seed)
    tensors, steps, shapes = list[Tensor](), list[Step](), {"x": (1, 8, 8, 4)}

    def weights(*shape: int, fan_in: int = 1) -> str:
        tensors.append(fixed(f"c{len(tensors)}", rng.normal(size=shape) / np.sqrt(fan_in)))
        return tensors[-1].name

    def numbers(*values: Any) -> str:
        tensors.append(fixed(f"c{len(tensors)}", np.array(values, np.int32)))
        return tensors[-1].name

    def act() -> str:
        return str(rng.choice(["none", "relu", "relu6", "relu_n1_to_1"], p=[0.4, 0.4, 0.15, 0.05]))

    def add(kind: str, inputs: Sequence[str | None], **attrs: Any) -> str:
        steps.append((kind, inputs, attrs))
        graph = float_graph(tensors, steps)
        shapes[f"t{len(steps) - 1}"] = graph.tensors[f"t{len(steps) - 1}"].shape
        return f"t{len(steps) - 1}"

    source, same = "x", None
    kinds = """conv_2d depthwise_conv_2d add sub mul max_pool_2d average_pool_2d relu relu6 relu_n1_to_1 leaky_relu prelu
    hard_swish logistic tanh pad concatenation resize_nearest_neighbor resize_bilinear transpose slice softmax log_softmax
    transpose_conv maximum""".split()
    for _ in range(length):
        kind, (_, h, w, c) = str(rng.choice(kinds)), shapes[source]
        others = [name for name, shape in shapes.items() if shape == shapes[source] and name != source]
        same = str(rng.choice(others)) if others else source
        if kind == "conv_2d":
            out = int(rng.integers(2, 9))
            source = add(kind, (source, weights(out, 3, 3, c, fan_in=9 * c), weights(out)), **WINDOW, activation=act())
        elif kind == "depthwise_conv_2d":
            source = add(kind, (source, weights(1, 3, 3, c, fan_in=9), weights(c)), **WINDOW, activation=act())
        elif kind in ("add", "sub", "mul"):
            other = same if rng.integers(2) else weights(*([1, 1, 1, c] if rng.integers(2) else [c]))
            source = add(kind, (source, other), activation=act())
        elif kind == "maximum":
            source = add(kind, (source, same))
        elif kind.endswith("pool_2d"):
            size = (min(2, h), min(2, w))
            source = add(kind, (source,), kernel=size, stride=(1, 1), padding=((0, 0), (0, 0)), activation="none")
        elif kind == "leaky_relu":
            source = add(kind, (source,), alpha=0.1)
        elif kind == "prelu":
            source = add(kind, (source, weights(1, 1, c)))
        elif kind == "pad" and h * w <= 100:
            source = add(kind, (source, numbers([0, 0], [0, 1], [1, 0], [0, 0])))
        elif kind == "concatenation" and c <= 8:
            source = add(kind, (source, same), axis=3, activation="none")
        elif kind == "transpose_conv" and h * w <= 64:
            out, where = int(rng.integers(2, 9)), {"stride": (2, 1), "padding": ((0, 1), (1, 1)), "activation": act()}
            source = add(kind, (numbers(1, 2 * h, w, out), weights(out, 3, 3, c, fan_in=9 * c), source, weights(out)), **where)
        elif kind in ("resize_nearest_neighbor", "resize_bilinear") and h * w <= 64:
            source = add(kind, (source, numbers(h + 1, w + 2)), align_corners=False, half_pixel_centers=False)
        elif kind == "transpose":
            source = add(kind, (source, numbers(0, 2, 1, 3)))
        elif kind == "slice" and h > 2:
            source = add(kind, (source, numbers(0, 1, 0, 0), numbers(1, h - 1, w, c)))
        elif kind == "softmax":
            source = add(kind, (source,), beta=1.0)
        elif kind in ("relu", "relu6", "relu_n1_to_1", "hard_swish", "log_softmax", "logistic", "tanh"):
            source = add(kind, (source,))
    source = add("mean", (source, numbers(1, 2)), keep_dims=False)
    c = shapes[source][-1]
    source = add("fully_connected", (source, weights(5, c, fan_in=c), weights(5)), **DENSE)
    add("softmax", (source,), beta=1.0)
    return float_graph(tensors, steps)


def random_classifier(seed: int) -> Graph:
    """Return a random image classifier: 6 to 9 convolutions, depthwise ones and sums of two maps, then a mean and scores."""
    rng = np.random.default_rng(seed)
    tensors, steps, channels = list[Tensor](), list[Step](), 4

    def weighted(kind: str, source: str, shape: tuple[int, ...], fan_in: int, **attrs: Any) -> str:
        number, out = len(steps), shape[3] if kind == "depthwise_conv_2d" else shape[0]
        tensors.append(fixed(f"w{number}", rng.normal(size=shape) * np.sqrt(2 / fan_in)))
        tensors.append(fixed(f"b{number}", rng.normal(size=out) / 4))
        steps.append((kind, (source, f"w{number}", f"b{number}"), attrs))
        return f"t{number}"

    source, same = "x", ""
    for number in range(int(rng.integers(6, 10))):
        activation = str(rng.choice(["relu", "relu6", "none"], p=[0.6, 0.2, 0.2]))
        if number and rng.random() < 0.3:
            shape = (1, 3, 3, channels)
            source = weighted("depthwise_conv_2d", source, shape, 9, **WINDOW, activation=activation)
        elif same and rng.random() < 0.4:
            steps.append(("add", (source, same), {"activation": activation}))
            source = f"t{len(steps) - 1}"
        else:
            out = channels if number > 1 and rng.random() < 0.5 else int(rng.integers(6, 13))
            size = int(rng.choice([1, 3]))
            window = WINDOW | {"padding": ((size // 2, size // 2),) * 2}
            before, kept = source, out == channels
            source = weighted(
                "conv_2d", source, (out, size, size, channels), size * size * channels, **window, activation=activation
            )
            same, channels = before if kept else "", out
    tensors.append(fixed("axes", np.array([1, 2])))
    steps.append(("mean", (source, "axes"), {"keep_dims": False}))
    source = weighted("fully_connected", f"t{len(steps) - 1}", (5, channels), channels, **DENSE)
    steps.append(("softmax", (source,), {"beta": 1.0}))
    return float_graph(tensors, steps)
