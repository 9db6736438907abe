"""Which depthwise convolutions the two kernels for maps of one column compute, and in which steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinyweave.ir import Graph, Op, Quant, Tensor, verify
from tinyweave.kernels import cycle_features
from tinyweave.kernels.dsp.taps import COLUMN, PIXEL, column_begins
from tinyweave.kernels.table import variant_for


def column(
    rows: int = 5,
    *,
    channels: int = 8,
    dilation: int = 1,
    width: int = 1,
    stride: int = 1,
    kernel: int = 5,
    padded: tuple[int, int] = (0, 0),
) -> Graph:
    """A window of `kernel` rows over a map of `rows` rows, dilated or not."""
    weights = np.ones((1, kernel, 1, channels), np.int8)
    attrs: dict[str, Any] = {
        "stride": (stride, 1),
        "dilation": (dilation, 1),
        "padding": (padded, (0, 0)),
        "activation": "none",
    }
    out_rows = (rows + sum(padded) - (kernel - 1) * dilation - 1) // stride + 1
    tensors = [
        Tensor("x", (1, rows, width, channels), "int8", Quant((0.5,), (3,))),
        Tensor("w", weights.shape, "int8", Quant((0.013,) * channels, (0,) * channels, 3), weights, "constant"),
        Tensor("y", (1, out_rows, width, channels), "int8", Quant((0.5,), (-4,))),
    ]
    op = Op("depthwise_conv_2d_0", "depthwise_conv_2d", ("x", "w", None), ("y",), attrs)
    return verify(Graph("column", {tensor.name: tensor for tensor in tensors}, (op,), ("x",), ("y",)))


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, True),
        ({"channels": 4}, True),
        ({"channels": 3}, False),
        ({"rows": 6}, True),
        ({"rows": 9, "stride": 3, "padded": (1, 2)}, True),
        ({"kernel": 3, "dilation": 2}, False),
        ({"width": 2}, False),
        ({"rows": 40, "kernel": 31}, True),
    ],
)
def test_it_computes_maps_of_one_column(changes: dict[str, Any], expected: bool) -> None:
    graph = column(**changes)
    assert all(requirement(graph, graph.ops[0]).met for requirement in COLUMN) == expected
    kernel = variant_for(graph, graph.ops[0], "cortex-m4").name
    own = "pixel" if graph.output(graph.ops[0]).shape[1] == 1 else "column"
    assert (kernel == f"tw_depthwise_{own}_s8_dsp") == expected


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, True),
        ({"rows": 6, "stride": 2}, True),
        ({"rows": 6}, False),
        ({"rows": 4, "padded": (1, 0)}, False),
        ({"rows": 4, "padded": (0, 1)}, False),
        ({"channels": 3}, False),
    ],
)
def test_a_column_without_padding_becomes_one_pixel_in_a_kernel_of_its_own(changes: dict[str, Any], expected: bool) -> None:
    graph = column(**changes)
    assert all(requirement(graph, graph.ops[0]).met for requirement in PIXEL) == expected
    assert (variant_for(graph, graph.ops[0], "cortex-m4").name == "tw_depthwise_pixel_s8_dsp") == expected
    fours, taps = 2, 5
    assert not expected or cycle_features.pixel(graph, graph.ops[0]).counts == (fours * taps, fours, 1.0)


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, [0]),
        ({"rows": 8}, [0, 2]),
        ({"rows": 9}, [0, 2, 4]),
        ({"rows": 9, "stride": 2}, [0, 1, 2]),
        ({"rows": 9, "padded": (2, 2)}, [0, 1, 2, 4, 6, 7, 8]),
        ({"rows": 3, "padded": (2, 2)}, [0, 1, 2]),
    ],
)
def test_it_computes_two_outputs_at_a_time_inside_the_map(changes: dict[str, Any], expected: list[int]) -> None:
    graph = column(**changes)
    assert column_begins(graph, graph.ops[0]).tolist() == expected
    fours, taps = 2, 5
    twos = graph.output(graph.ops[0]).shape[1] - len(expected)
    ones = len(expected) - twos
    counts = cycle_features.column(graph, graph.ops[0]).counts
    assert counts == (twos * fours * taps, twos * fours, ones * fours * taps, ones * fours, len(expected), 1.0)
