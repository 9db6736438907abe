"""SAME padding of ONNX counts the dilated extent of a kernel."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs onnx: pip install '.[onnx]'")

from cases.from_onnx import floats, model, one

from tinyweave import ops
from tinyweave.importers.onnx import from_onnx


@pytest.mark.parametrize(
    "stride, dilation, padding", [(1, 1, (1, 1)), (1, 2, (2, 2)), (1, 3, (3, 3)), (2, 2, (1, 2)), (3, 1, (0, 0))]
)
@pytest.mark.parametrize("end", ["UPPER", "LOWER"])
def test_same_padding_counts_the_dilated_kernel(end: str, stride: int, dilation: int, padding: tuple[int, int]) -> None:
    """An axis of 12 has ceil(12 / stride) windows of 2 * dilation + 1 pixels. An odd pixel of padding is added at `end`."""
    window = {"strides": [stride, 1], "dilations": [dilation, 1]}
    before, after = padding if end == "UPPER" else padding[::-1]
    given, x = [floats(3, 2, 3, 3)], floats(1, 12, 5, 2)
    same = from_onnx(model(one("Conv", 1, 2, 12, 5, given=given, auto_pad=f"SAME_{end}", **window)), "same")
    explicit = from_onnx(model(one("Conv", 1, 2, 12, 5, given=given, pads=[before, 1, after, 1], **window)), "same")
    (found,), (expected,) = (ops.run(graph, {"x": x}).values() for graph in (same, explicit))
    assert found.shape == (1, -(-12 // stride), 5, 3) and np.array_equal(found, expected)
