"""Outputs of an op that only moves values get the scale of its input, not those of the file; names of graphs."""

from __future__ import annotations

import numpy as np
import pytest
from cases.draw import integers
from cases.floats import convolution

from tinyweave.ir import Graph, Op, Quant, Tensor, verify
from tinyweave.quantize import prequantised
from tinyweave.quantize.calibrate import calibrate
from tinyweave.quantize.convert import to_int8


def test_the_parts_of_a_split_get_the_scale_of_its_input() -> None:
    x, y = Quant((0.05,), (-3,)), Quant((0.2,), (5,))
    tensors = [Tensor("x", (1, 2, 2, 4), "float32"), integers("axis", 3)]
    tensors += [Tensor(name, (1, 2, 2, 2), "float32") for name in "ab"]
    split = Op("split_0", "split", ("axis", "x"), ("a", "b"))
    graph = verify(Graph("parts", {tensor.name: tensor for tensor in tensors}, (split,), ("x",), ("a", "b")))
    _, quants, requantised = prequantised._reconciled(graph, {"x": x, "a": y, "b": y})
    assert quants["a"] == quants["b"] == x and not requantised


@pytest.mark.parametrize("name, expected", [("", "net"), ("small", "small")])
def test_the_name_of_the_int8_graph_defaults_to_that_of_the_float_graph(name: str, expected: str) -> None:
    graph = convolution(layers=1)
    made = calibrate(graph, {"x": np.ones((2, 1, 8, 8, 4), np.float32)}, "minmax")
    assert to_int8(graph, made.groups, made.quants, name=name).name == expected
