"""The finest scale of a product's output is a fraction of the product of both inputs' scales."""

from __future__ import annotations

import numpy as np
import pytest
from cases.floats import fixed, float_graph

from tinyweave.ir import Graph
from tinyweave.quantize.calibrate import FINEST, calibrate


def product(kind: str, little: float) -> Graph:
    """Return products of relu(x) and relu(`little` - x); if one is large, the other is 0."""
    attrs = {"activation": "none"} if kind == "mul" else {"adj_x": False, "adj_y": False}
    difference = ("sub", ("little", "x"), {"activation": "none"})
    steps = [("relu", ("x",), {}), difference, ("relu", ("t1",), {}), (kind, ("t0", "t2"), attrs)]
    return float_graph([fixed("little", np.full(2, little))], steps, (1, 2, 2, 2))


@pytest.mark.parametrize("kind", ["mul", "batch_matmul"])
@pytest.mark.parametrize("first, second", [(30.0, 1.0), (1.0, 30.0), (1000.0, 500.0), (0.01, 0.02)])
def test_the_scale_of_a_product_is_no_finer_than_its_inputs_allow(kind: str, first: float, second: float) -> None:
    little = 1e-4 * min(first, second)
    graph, x = product(kind, little), np.empty((3, 1, 2, 2, 2), np.float32)
    x[0], x[1], x[2] = first, -second, little / 2
    made = calibrate(graph, {"x": x}, "minmax")
    one, other, out = (made.of(name) for name in ("t0", "t2", graph.outputs[0]))
    assert one is not None and other is not None and out is not None
    assert one.scale[0] == pytest.approx(first / 255, rel=1e-3) and other.scale[0] == pytest.approx(second / 255, rel=1e-3)
    assert out.scale[0] == pytest.approx(FINEST * one.scale[0] * other.scale[0], rel=1e-3)


def test_the_scale_of_a_sum_is_no_finer_than_the_larger_of_its_inputs_allows() -> None:
    """The first operand has the scale of the map that it is cut from, which is larger than the scale of the constant."""
    begin, size = fixed("begin", np.array([0, 0, 0, 1])), fixed("size", np.array([1, 2, 2, 1]))
    steps = [("slice", ("x", "begin", "size"), {}), ("add", ("t0", "hundred"), {"activation": "none"})]
    graph = float_graph([begin, size, fixed("hundred", np.full(1, 100.0))], steps, (1, 2, 2, 2))
    x = np.empty((2, 1, 2, 2, 2), np.float32)
    x[..., 0], x[0, ..., 1], x[1, ..., 1] = 25_000.0, -100.0, -100.001
    made = calibrate(graph, {"x": x}, "minmax")
    one, out = made.of("t0"), made.of("t1")
    assert one is not None and out is not None and one.scale[0] == pytest.approx(25_100 / 255, rel=1e-3)
    assert out.scale[0] == pytest.approx(FINEST * one.scale[0], rel=1e-3)
