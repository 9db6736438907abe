"""Random ONNX networks that ONNX Runtime's quantiser made int8, as QDQ pairs or as QLinear ops."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from fuzz.onnx_growth import Layer, Network, run
from onnx import helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

SAMPLES = 4  # random inputs that calibrate a network


class Reader(CalibrationDataReader):
    """The samples that calibrate a network."""

    def __init__(self, samples: Sequence[np.ndarray]) -> None:
        self.left = iter(samples)

    def get_next(self) -> Any:
        return next(({"x": x} for x in self.left), None)


def convolution(n: Network) -> str:
    channels, outputs = n.maps[-1][1][1], n.rng.randint(1, 12)
    group, kernel = n.rng.choice([1, 1, channels]), n.rng.randint(1, 3)
    bias = [n.weights(outputs * group)] * n.rng.randint(0, 1)
    weights = n.weights(outputs * group, channels // group, kernel, kernel)
    return n.node("Conv", n.x, weights, *bias, strides=[n.rng.randint(1, 2)] * 2, group=group, pads=[kernel // 2] * 4)


def activation(n: Network) -> str:
    limits = [n.constant(0), n.constant(6)]
    return n.rng.choice([
        *(lambda op=op: n.node(op, n.x) for op in ("Relu", "Sigmoid", "LeakyRelu", "Softmax")),
        lambda: n.node("Clip", n.x, *limits),
    ])()  # fmt: skip


def pool(n: Network) -> str | None:
    if min(n.maps[-1][1][2:]) < 2:
        return None
    return n.node(n.rng.choice(["MaxPool", "AveragePool"]), n.x, kernel_shape=[2, 2], strides=[n.rng.randint(1, 2)] * 2)


def earlier(n: Network) -> str | None:
    """Combine the map with an earlier one or, if all others have another size, with a copy that is limited."""
    shape = n.maps[-1][1]
    others = [(name, s) for name, s in n.maps[1:-1] if s[2:] == shape[2:]]
    name, other = n.rng.choice(others) if others else (n.node("Relu", n.x), shape)
    if other == shape and n.rng.random() < 0.7:
        return n.node(n.rng.choice(["Add", "Mul"]), n.x, name)
    return n.node("Concat", n.x, name, axis=1) if shape[1] + other[1] < 48 else None


def head(n: Network) -> str:
    flat = n.node("Flatten", n.node("GlobalAveragePool", n.x) if n.rng.random() < 0.5 else n.x)
    inputs = len(run(n.file(flat, n.shape), n.example)[0])  # type: ignore[index]
    return n.rng.choice([
        lambda: n.node("Gemm", flat, n.weights(6, inputs), n.weights(6), transB=1),
        lambda: n.node("MatMul", flat, n.weights(inputs, 6)),
    ])()  # fmt: skip


LAYERS: list[Layer] = [convolution, activation, activation, pool, earlier, earlier]


def is_quantised(seed: int) -> bool:
    """Return whether the network of a seed is quantised by ONNX Runtime: one in eight, all of them on images."""
    return seed % 8 == 4


def network(seed: int) -> tuple[bytes, np.ndarray]:
    """Return the file of a seed's int8 network, and an example input, which is int8 or uint8 in half of the networks."""
    made = Network(seed)
    made.grow([convolution])
    for _ in range(made.rng.randint(2, 7)):
        made.grow(LAYERS)
    made.grow([head])
    samples = [made.example, *(made.floats(*made.shape) for _ in range(SAMPLES - 1))]
    form = made.rng.choice(list(QuantFormat))
    activations = made.rng.choice([QuantType.QInt8, QuantType.QUInt8] if form == QuantFormat.QDQ else [QuantType.QInt8])
    types = {"activation_type": activations, "weight_type": QuantType.QInt8}
    with TemporaryDirectory() as folder:
        real, small = Path(folder) / "float.onnx", Path(folder) / "int8.onnx"
        real.write_bytes(made.file(made.x, made.shape))
        quantize_static(real, small, Reader(samples), quant_format=form, per_channel=made.rng.random() < 0.5, **types)
        file = small.read_bytes()
    return without_first(file, made.example) if made.rng.random() < 0.5 else (file, made.example)


def without_first(file: bytes, x: np.ndarray) -> tuple[bytes, np.ndarray]:
    """Cut off the QuantizeLinear of the input; return the file whose input is int8 or uint8, and the integers of `x`."""
    model = onnx.load_from_string(file)
    graph, constants = model.graph, {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    first = next(node for node in graph.node if node.op_type == "QuantizeLinear" and node.input[0] == "x")
    scale, zero = (constants[name] for name in first.input[1:])
    limits = np.iinfo(zero.dtype)
    integers = np.clip(np.rint(x / scale) + zero, limits.min, limits.max).astype(zero.dtype)
    graph.node.remove(first)
    for node in graph.node:
        node.input[:] = ["x" if name == first.output[0] else name for name in node.input]
    graph.input[0].CopyFrom(helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(zero.dtype), x.shape))
    return bytes(model.SerializeToString()), integers
