"""Depthwise convolutions of one input channel become dense ones with the same outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cases.rows import known
from passes.layers import same_layers

from tinyweave import api
from tinyweave.ir import Graph, Op, Quant, Tensor, verify
from tinyweave.kernels.table import variant_for
from tinyweave.passes.depthwise_to_conv import depthwise_to_conv


def layer(units: int, channels: int = 1, *, per_channel: bool = True, dtype: str = "int8") -> Graph:
    rng = np.random.default_rng(units)
    weights = rng.integers(-127, 128, (1, 5, 3, units)).astype(np.int8)
    scales = tuple(rng.uniform(0.001, 0.01, units).tolist()) if per_channel else (0.004,)
    quant = Quant(scales, (0,) * len(scales), 3 if per_channel else None)
    attrs = {"stride": (2, 1), "dilation": (1, 2), "padding": ((2, 2), (1, 0)), "activation": "relu"}
    tensors = (
        Tensor("x", (1, 9, 8, channels), dtype, Quant((0.05,), (0 if dtype == "int16" else -7,))),
        Tensor("w", weights.shape, "int8", quant, weights, "constant"),
        Tensor("y", (1, 5, 5, units), dtype, Quant((0.05,), (0 if dtype == "int16" else 3,))),
    )
    op = Op("filters", "depthwise_conv_2d", ("x", "w", None), ("y",), attrs)
    return verify(Graph("layer", {tensor.name: tensor for tensor in tensors}, (op,), ("x",), ("y",)))


@pytest.mark.parametrize("per_channel", [True, False])
def test_filters_over_one_channel_become_a_dense_convolution(per_channel: bool) -> None:
    before = layer(6, per_channel=per_channel)
    after, tensors = depthwise_to_conv(before)
    (op,) = after.ops
    assert (op.kind, op.name, after.input(op, 1).shape) == ("conv_2d", "filters", (6, 5, 3, 1))
    assert all(same_layers(before, after, tensors, seed) for seed in range(3))


def test_outputs_of_rewritten_depthwise_convolutions_do_not_change() -> None:
    replaced = 0
    for case in known("depthwise_conv_2d"):
        after, tensors = depthwise_to_conv(case.graph)
        replaced += after is not case.graph
        assert after is case.graph or same_layers(case.graph, after, tensors, 0)
    assert replaced > 0


@pytest.mark.parametrize("graph", [layer(1), layer(4, channels=4), layer(6, dtype="int16")])
def test_other_depthwise_convolutions_are_not_rewritten(graph: Graph) -> None:
    assert depthwise_to_conv(graph)[0] is graph


def test_first_layers_of_real_models_run_on_the_dense_kernel(shared: Path) -> None:
    for file in ("SiliconLabs__mltk__fingerprint_signature_generator", "google__CFU-Playground__model_pdti8"):
        graph = api.load(shared / "models" / f"{file}.tflite").graph
        assert graph.ops[0].kind == "conv_2d"
        assert variant_for(graph, graph.ops[0], "cortex-m4").name == "tw_conv_2d_s8_dsp"
