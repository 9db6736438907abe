"""Norms and activations are folded into the preceding layer if possible, and the network computes the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tinyweave import ops
from tinyweave.ir import Graph, Op, Quant, Tensor, verify
from tinyweave.passes.fold_float import fold_float

C = 8
RNG = np.random.default_rng(0)
CONV = {"stride": (1, 1), "dilation": (1, 1), "padding": ((0, 0), (0, 0)), "activation": "none"}
Step = tuple[str, tuple[Any, ...], dict[str, Any]]  # kind, operands besides the map, attributes


def floats(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


LAYERS: dict[str, Step] = {
    "conv_2d": ("conv_2d", (floats(C, 1, 1, C), floats(C)), CONV),
    "conv_2d without bias": ("conv_2d", (floats(C, 1, 1, C),), CONV),
    "depthwise_conv_2d": ("depthwise_conv_2d", (floats(1, 1, 1, C), floats(C)), CONV),
    "fully_connected": ("fully_connected", (floats(C, C), floats(C)), {"activation": "none", "keep_num_dims": True}),
    "transpose_conv": (
        "transpose_conv",
        (ints(1, C, C, C), floats(C, 1, 1, C), "x", floats(C)),
        {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "activation": "none"},
    ),
}
CROP: Step = ("slice", (ints(0, 1, 1, 0), ints(1, 5, 6, C)), {})
PLAIN = {"activation": "none"}
NORM: list[Step] = [("mul", (floats(C),), PLAIN), ("add", (floats(1, 1, 1, C),), PLAIN)]
RELU6: Step = ("relu6", (), {})


def network(*steps: Step, keep: tuple[str, ...] = ()) -> Graph:
    """Return a chain of steps on a map "x" [1, 8, 8, 8] with outputs "t0", "t1", ..."""
    tensors, made, last = {"x": Tensor("x", (1, C, C, C), "float32")}, [], "x"
    for number, (kind, operands, attrs) in enumerate(steps):
        names = []
        for index, operand in enumerate(operands):
            if isinstance(operand, np.ndarray):
                name = f"c{number}_{index}"
                tensors[name] = Tensor(name, operand.shape, str(operand.dtype), None, operand, "constant")
            names.append(operand if isinstance(operand, str) else name)
        inputs = names if any(isinstance(operand, str) for operand in operands) else [last, *names]
        last, op = f"t{number}", Op(f"{kind}_{number}", kind, tuple(inputs), (f"t{number}",), attrs)
        tensors[last] = Tensor(last, (), "float32")
        made.append(op)
        graph = Graph("g", tensors, tuple(made), ("x",), (last,))
        tensors[last] = replace(tensors[last], shape=ops.spec_for(graph, op).infer(graph, op)[0])
    return ops.check(verify(Graph("g", tensors, tuple(made), ("x",), (last, *keep))))


def assert_folds_to(graph: Graph, *kinds: str) -> Graph:
    folded = ops.check(verify(fold_float(graph)))
    assert [op.kind for op in folded.ops] == list(kinds)
    x = {"x": floats(1, C, C, C)}
    before, after = ops.run(graph, x), ops.run(folded, x)
    for name, values in after.items():
        assert np.allclose(values, before[name], atol=1e-5), name
    return folded


@pytest.mark.parametrize("name", LAYERS)
def test_a_norm_and_an_activation_are_folded_into_a_layer(name: str) -> None:
    layer = LAYERS[name]
    folded = assert_folds_to(network(layer, *NORM, RELU6), layer[0])
    assert folded.ops[0].attrs["activation"] == "relu6"
    assert all(tensor.dtype in ("float32", "int32") for tensor in folded.tensors.values())


@pytest.mark.parametrize("name", LAYERS)
def test_a_norm_after_a_crop_is_folded_into_the_layer(name: str) -> None:
    again: Step = ("slice", (ints(0, 0, 0, 0), ints(1, 4, 4, C)), {})
    assert_folds_to(network(LAYERS[name], CROP, *NORM, RELU6), LAYERS[name][0], "slice")
    assert_folds_to(network(LAYERS[name], CROP, again, *NORM), LAYERS[name][0], "slice", "slice")


def test_a_norm_after_a_slice_of_channels_is_not_folded() -> None:
    cut: Step = ("slice", (ints(0, 0, 0, 1), ints(1, C, C, C - 1)), {})
    norm: Step = ("mul", (floats(C - 1),), PLAIN)
    assert_folds_to(network(LAYERS["conv_2d"], cut, norm, RELU6), "conv_2d", "slice", "mul")


def test_an_activation_is_fused_into_an_add_a_sub_and_a_mul() -> None:
    for kind in ("add", "sub", "mul"):
        folded = assert_folds_to(network((kind, ("x", floats(C)), PLAIN), RELU6), kind)
        assert folded.ops[0].attrs["activation"] == "relu6"


def test_scalar_constants_and_constants_as_first_operand_are_folded() -> None:
    conv = LAYERS["conv_2d"]
    assert_folds_to(network(conv, ("mul", (floats(1),), PLAIN), ("add", (floats(), "t1"), PLAIN)), "conv_2d")
    assert_folds_to(network(conv, ("sub", (floats(C),), PLAIN)), "conv_2d")
    assert_folds_to(network(conv, ("mul", (floats(C), "t0"), PLAIN)), "conv_2d")


@pytest.mark.parametrize(
    "step",
    [
        ("sub", (floats(C), "t0"), PLAIN),  # the layer is subtracted
        ("mul", (floats(C, 1),), PLAIN),  # a value per column; there are as many columns as channels
        ("mul", (floats(C, 1, C),), PLAIN),
        ("tanh", (), {}),
    ],
    ids=["subtracted", "per column", "per row", "no clamp"],
)
def test_a_constant_that_is_not_per_channel_is_not_folded(step: Step) -> None:
    assert_folds_to(network(LAYERS["conv_2d"], step), "conv_2d", step[0])


def test_a_norm_after_an_activation_is_not_folded() -> None:
    assert_folds_to(network(LAYERS["conv_2d"], RELU6, *NORM), "conv_2d", "mul", "add")


def test_nothing_is_folded_across_an_output_or_a_tensor_with_two_readers() -> None:
    assert_folds_to(network(LAYERS["conv_2d"], *NORM, keep=("t0",)), "conv_2d", "mul", "add")
    both = network(LAYERS["conv_2d"], NORM[0], ("add", ("t0", "t1"), PLAIN))
    assert_folds_to(both, "conv_2d", "mul", "add")
    assert_folds_to(network(LAYERS["conv_2d"], CROP, RELU6, keep=("t1",)), "conv_2d", "slice", "relu6")
    assert_folds_to(network(LAYERS["conv_2d"], CROP, RELU6, keep=("t0",)), "conv_2d", "slice", "relu6")


def test_folding_into_shared_weights_leaves_the_other_layer_unchanged() -> None:
    graph = network(LAYERS["conv_2d"], NORM[0], LAYERS["conv_2d"], RELU6)
    second = replace(graph.ops[2], inputs=("t1", *graph.ops[0].inputs[1:]))
    assert_folds_to(replace(graph, ops=(*graph.ops[:2], second, *graph.ops[3:])), "conv_2d", "conv_2d")


def test_nothing_is_folded_across_a_quantised_tensor() -> None:
    graph = network(LAYERS["conv_2d"], *NORM, RELU6)
    scaled = {**graph.tensors, "t0": replace(graph.tensors["t0"], quant=Quant((0.1,), (0,)))}
    assert_folds_to(replace(graph, tensors=scaled), "conv_2d", "mul", "add")
    weights = replace(graph.tensors["c0_0"], dtype="int8", quant=Quant((1.0,), (0,)), data=np.ones((C, 1, 1, C), np.int8))
    kept = fold_float(replace(graph, tensors={**graph.tensors, "c0_0": weights}))
    assert [op.kind for op in kept.ops] == ["conv_2d", "mul", "add"]


def test_unused_ops_are_dropped() -> None:
    graph = network(LAYERS["conv_2d"], RELU6)
    assert_folds_to(replace(graph, outputs=("t0",)), "conv_2d")
