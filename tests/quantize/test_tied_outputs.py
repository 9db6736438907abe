"""Outputs of an op that shares scales: of the parts of a split, and of a maximum of a sigmoid."""

from __future__ import annotations

import numpy as np
import pytest
from cases.draw import integers

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


@pytest.mark.parametrize(("limit", "expected"), [(0.7, Quant((1 / 256,), (-128,))), (3.0, None)])
def test_a_constant_beyond_a_fixed_scale_is_not_clipped(limit: float, expected: Quant | None) -> None:
    """A sigmoid has the scale 1/256; a maximum of it and a larger constant has another scale."""
    tensors = [Tensor(name, (1, 4), "float32") for name in ("x", "s", "y")]
    tensors.append(Tensor("limit", (1,), "float32", None, np.array([limit], np.float32), "constant"))
    ops = (Op("logistic_0", "logistic", ("x",), ("s",)), Op("maximum_1", "maximum", ("s", "limit"), ("y",)))
    graph = verify(Graph("limited", {tensor.name: tensor for tensor in tensors}, ops, ("x",), ("y",)))
    samples = {"x": np.linspace(-4, 4, 8, dtype=np.float32).reshape(2, 1, 4)}
    made = calibrate(graph, samples, "minmax")
    small = to_int8(graph, made.groups, made.quants)
    y = small.tensors["y"]
    assert y.quant == expected if expected else y.scale * (127 - y.zero_point) >= limit - y.scale
    assert small.tensors["s"].quant == Quant((1 / 256,), (-128,))
