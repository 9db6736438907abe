"""Which depthwise convolutions the kernel of a column to one pixel supports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinyweave.ir import Graph, Op, Quant, Tensor, verify
from tinyweave.kernels.dsp.taps import PIXEL


def column(
    rows: int = 5, *, images: int = 1, zero: int = 0, channels: int = 8, dilation: int = 1, out_rows: int = 1, padded: int = 0
) -> Graph:
    """Return a convolution with a window of 5 rows, or of fewer rows and one row of padding, on a column of `rows` pixels."""
    kernel = (5 - 1) // dilation + 1 if dilation > 1 else 5
    weights = np.ones((1, kernel, 1, channels), np.int8)
    attrs: dict[str, Any] = {
        "stride": (1, 1),
        "dilation": (dilation, 1),
        "padding": ((padded, 0), (0, 0)),
        "activation": "none",
    }
    tensors = [
        Tensor("x", (images, rows - padded, 1, channels), "int8", Quant((0.5,), (3,))),
        Tensor("w", weights.shape, "int8", Quant((0.013,) * channels, (zero,) * channels, 3), weights, "constant"),
        Tensor("y", (images, out_rows, 1, channels), "int8", Quant((0.5,), (-4,))),
    ]
    op = Op("depthwise_conv_2d_0", "depthwise_conv_2d", ("x", "w", None), ("y",), attrs)
    return verify(Graph("column", {tensor.name: tensor for tensor in tensors}, (op,), ("x",), ("y",)))


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, True),
        ({"channels": 4}, True),
        ({"channels": 3}, False),
        ({"rows": 6, "out_rows": 2}, False),
        ({"images": 2}, False),
        ({"dilation": 2}, False),
        ({"padded": 1}, False),
    ],
)
def test_the_pixel_kernel_supports_only_one_pixel_of_an_unpadded_column(changes: dict[str, Any], expected: bool) -> None:
    graph = column(**changes)
    assert all(requirement(graph, graph.ops[0]).met for requirement in PIXEL) == expected
