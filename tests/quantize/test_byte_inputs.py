"""uint8 and int8 inputs of float networks: the cast and the normalisation become the scale of the input."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install '.[onnx]'")

from cases.from_onnx import CONV, Node, check_refused, distance, floats, ints, model, run_by_runtime  # noqa: E402
from onnx import TensorProto  # noqa: E402

from tinyweave import ops  # noqa: E402
from tinyweave.exporters.tflite import to_tflite  # noqa: E402
from tinyweave.importers.onnx import from_onnx  # noqa: E402
from tinyweave.ir import CompileError, Quant  # noqa: E402
from tinyweave.quantize.calibration_samples import open_samples  # noqa: E402
from tinyweave.quantize.fidelity import fidelity  # noqa: E402
from tinyweave.quantize.ptq import QuantiseOptions, quantise  # noqa: E402

TYPES = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}
CAST = ("Cast", ("x",), ("a",), {"to": TensorProto.FLOAT})
LAYER = ("Conv", ("n", "w"), ("y",), {"pads": [1, 1, 1, 1]})
NCHW, NHWC = (1, 3, 12, 16), (1, 12, 16, 3)


def steps(*kinds: tuple[str, object]) -> tuple[list[Node], dict[str, object]]:
    """Return nodes from "a" to "n", each with one constant, and these constants."""
    names = ["a", *(f"s{index}" for index in range(1, len(kinds))), "n"]
    nodes = [(op, (names[i], f"c{i}"), (names[i + 1],), {}) for i, (op, _) in enumerate(kinds)]
    return nodes, {f"c{i}": value for i, (_, value) in enumerate(kinds)}


# form -> its nodes after the cast and their constants, the type of the input, its scale and zero point, kinds of the ops
Form = tuple[tuple[list[Node], dict[str, object]], str, tuple[float, int], list[str]]
CHANNELS = np.array([0.2, 0.4, 0.3], np.float32).reshape(3, 1, 1)
FORMS: dict[str, Form] = {
    "bytes": (steps(("Identity", None)), "uint8", (1, 0), ["dequantize", "conv_2d"]),
    "0 to 1": (steps(("Div", np.float32(255))), "uint8", (1 / 255, 0), ["dequantize", "conv_2d"]),
    "around 128": (
        steps(("Sub", np.float32(128)), ("Mul", np.float32(1 / 64))), "uint8", (1 / 64, 128), ["dequantize", "conv_2d"],
    ),
    "int8": (
        steps(("Add", np.float32(128)), ("Div", np.float32([255]))), "int8", (1 / 255, -128), ["dequantize", "conv_2d"],
    ),
    "between integers": (
        steps(("Div", np.float32(127.5)), ("Sub", np.float32(1))), "uint8", (1 / 127.5, 0), ["dequantize", "add", "conv_2d"],
    ),
    "out of the range": (
        steps(("Add", np.float32(3)), ("Mul", np.float32(0.5))), "uint8", (0.5, 0), ["dequantize", "add", "conv_2d"],
    ),
    "per channel": (
        steps(("Div", np.float32(255)), ("Sub", CHANNELS), ("Div", CHANNELS)), "uint8", (1 / 255, 0),
        ["dequantize", "sub", "mul", "conv_2d"],
    ),
    "negative": (steps(("Mul", np.float32(-1))), "uint8", (1, 0), ["dequantize", "mul", "conv_2d"]),
    "from a constant": (
        ([("Sub", ("c", "a"), ("n",), {})], {"c": np.float32(255)}), "uint8", (1, 0), ["dequantize", "sub", "conv_2d"],
    ),
    "read twice": (
        ([("Mul", ("a", "c"), ("m",), {}), ("Add", ("a", "m"), ("n",), {})], {"c": np.float32(0.5)}), "uint8", (1, 0),
        ["dequantize", "mul", "add", "conv_2d"],
    ),
}  # fmt: skip


def file(form: Form, before: list[Node] | None = None, shape: tuple[int, ...] = NCHW) -> bytes:
    (nodes, constants), dtype, *_ = form
    nodes = [(op, [name for name in given if constants.get(name, 0) is not None], made, at) for op, given, made, at in nodes]
    used = {name: value for name, value in constants.items() if value is not None}
    made = onnx.load_from_string(model(([*(before or [CAST]), *nodes, LAYER], {"x": shape}, {**used, "w": WEIGHTS})))
    made.graph.input[0].type.tensor_type.elem_type = TYPES[dtype]
    return bytes(made.SerializeToString())


WEIGHTS = floats(6, 3, 3, 3)
TURN = {"perm": [0, 3, 1, 2]}
TURNED = {
    "a transpose before the cast": [("Transpose", ("x",), ("t",), TURN), ("Cast", ("t",), ("a",), {"to": TensorProto.FLOAT})],
    "a transpose after the cast": [("Cast", ("x",), ("t",), {"to": TensorProto.FLOAT}), ("Transpose", ("t",), ("a",), TURN)],
}


def random_bytes(dtype: str, *shape: int) -> np.ndarray:
    return np.random.default_rng(1).integers(*(0, 256) if dtype == "uint8" else (-128, 128), shape).astype(dtype)


@pytest.mark.parametrize("name", FORMS)
def test_the_normalisation_of_bytes_becomes_the_scale_of_the_input(name: str) -> None:
    _, dtype, (scale, zero_point), kinds = FORMS[name]
    data, x = file(FORMS[name]), random_bytes(dtype, *NCHW)
    graph = from_onnx(data, "net")
    source = graph.tensors["x"]
    assert (source.dtype, source.shape) == (dtype, NHWC)
    assert source.quant == Quant((float(np.float32(scale)),), (zero_point,))
    assert [op.kind for op in graph.ops] == kinds
    assert distance(graph, [x], run_by_runtime(data, {"x": x})) < 1e-5


@pytest.mark.parametrize("name", TURNED)
def test_bytes_with_channels_last_need_no_transpose(name: str) -> None:
    data, x = file(FORMS["0 to 1"], TURNED[name], NHWC), random_bytes("uint8", *NHWC)
    graph = from_onnx(data, "net")
    assert graph.tensors["x"].shape == NHWC and [op.kind for op in graph.ops] == ["dequantize", "conv_2d"]
    (found,) = ops.run(graph, {"x": x}).values()
    (expected,) = run_by_runtime(data, {"x": x})
    assert np.allclose(found, np.moveaxis(expected, 1, -1), atol=1e-5)


@pytest.mark.litert
@pytest.mark.parametrize("name", ["0 to 1", "around 128", "int8", "per channel", "between integers"])
def test_the_int8_network_takes_the_bytes(name: str, litert) -> None:  # type: ignore[no-untyped-def]
    """The input of the int8 network has the type and the scale of the float network's input, whatever the samples' range is."""
    dtype = FORMS[name][1]
    graph = from_onnx(file(FORMS[name]), "net")
    samples = open_samples(random_bytes(dtype, 16, *NCHW[1:]) // 2, graph)
    done = quantise(graph, samples, QuantiseOptions(method="minmax"))
    source = done.graph.tensors["x"]
    assert (source.dtype, source.quant) == (dtype, graph.tensors["x"].quant)
    assert all(tensor.dtype != "float32" for tensor in done.graph.tensors.values())
    assert fidelity(done.real, done.graph, samples).sqnr_db > 36
    x = random_bytes(dtype, *NHWC)
    (found,) = ops.run(done.graph, {"x": x}).values()
    assert found.tobytes() == litert.run(to_tflite(done.graph), [[x]])[0].outputs[0].tobytes()


def test_a_quantised_network_with_an_input_of_bytes_takes_the_bytes() -> None:
    """The input has the scale of DequantizeLinear, or of QuantizeLinear after a cast and a product."""
    scales = {"s": np.float32(1 / 200), "z": np.uint8(7), "one": np.float32(1 / 255), "w": WEIGHTS, "os": np.float32(0.05)}
    end = [
        ("Conv", ("d", "w"), ("c",), {}),
        ("QuantizeLinear", ("c", "os", "z"), ("q2",), {}),
        ("DequantizeLinear", ("q2", "os", "z"), ("y",), {}),
    ]
    direct = [("DequantizeLinear", ("x", "s", "z"), ("d",), {})]
    cast = [
        CAST,
        ("Mul", ("a", "one"), ("n",), {}),
        ("QuantizeLinear", ("n", "s", "z"), ("q",), {}),
        ("DequantizeLinear", ("q", "s", "z"), ("d",), {}),
    ]
    for nodes, scale, zero_point in ((direct, 1 / 200, 7), (cast, 1 / 255, 0)):
        made = onnx.load_from_string(model(([*nodes, *end], {"x": NCHW}, scales)))
        made.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT8
        data, x = made.SerializeToString(), random_bytes("uint8", *NCHW)
        graph = from_onnx(data, "net")
        assert graph.tensors["x"].dtype == "uint8"
        assert graph.tensors["x"].quant == Quant((float(np.float32(scale)),), (zero_point,))
        (found,), (expected,) = ops.run(graph, {"x": np.moveaxis(x, 1, -1).copy()}).values(), run_by_runtime(data, {"x": x})
        out = graph.tensors[graph.outputs[0]]
        assert np.abs((found.astype(int) - out.zero_point) * out.scale - np.moveaxis(expected, 1, -1)).max() < 0.11


@pytest.mark.parametrize("values", [np.full(NCHW, 0.5), np.full(NCHW, 256), np.full(NCHW, -1)])
def test_samples_that_are_no_bytes_are_refused(values: np.ndarray) -> None:
    samples = open_samples(values, from_onnx(file(FORMS["0 to 1"]), "net"))
    with pytest.raises(CompileError, match="sample 0 holds other values than integers from 0 to 255; give the uint8 values"):
        samples.batch([0])


def test_arithmetic_on_bytes_is_refused() -> None:
    """uint8 sums wrap around at 256, which no float network does."""
    made = onnx.load_from_string(model(([("Add", ("x", "x"), ("a",), {}), ("Relu", ("a",), ("y",), {})], {"x": CONV}, {})))
    made.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT8
    check_refused(made.SerializeToString(), "Add (in a): it computes on uint8; cast the integers to float32 first")


def test_a_byte_input_that_is_padded_keeps_its_zero_point() -> None:
    pad = ("Pad", ("x", "pads"), ("p",), {})
    before = [pad, ("Cast", ("p",), ("a",), {"to": TensorProto.FLOAT})]
    (nodes, constants), *rest = FORMS["around 128"]
    data = file(((nodes, {**constants, "pads": ints(0, 0, 1, 1, 0, 0, 1, 1)}), *rest), before)
    x = random_bytes("uint8", *NCHW)
    assert distance(from_onnx(data, "net"), [x], run_by_runtime(data, {"x": x})) < 1e-5
