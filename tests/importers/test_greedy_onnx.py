"""Small ONNX files with huge computed constants are refused before the constants are computed."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs onnx: pip install '.[onnx]'")

from cases.from_onnx import Case, Constants, check_refused, floats, ints, model, one


def constants_first(op: str, constants: Constants) -> Case:
    """Return a model that adds the output of an op on constants to the input."""
    return [(op, list(constants), ("k",), {}), ("Add", ("x", "k"), ("y",), {})], {"x": (1, 4)}, constants


GREEDY: dict[str, tuple[bytes, str]] = {
    "a huge constant": (
        model(
            ([("ConstantOfShape", ("n",), ("c",), {}), ("Add", ("x", "c"), ("y",), {})], {"x": (1, 4)}, {"n": ints(1 << 40)})
        ),
        "a constant of shape [1099511627776] takes more than 67,108,864 bytes",
    ),
    "a huge repetition": (
        model(
            (
                [("Expand", ("c", "n"), ("e",), {}), ("Add", ("x", "e"), ("y",), {})],
                {"x": (1, 4)},
                {"c": floats(1), "n": ints(1 << 40)},
            )
        ),
        "takes more than 67,108,864 bytes",
    ),
    "a huge sum of small constants": (
        model(constants_first("Add", {"c": np.zeros((1 << 15, 1), np.float32), "d": np.zeros((1, 1 << 15), np.float32)})),
        "Add (in k): a constant of shape [32768, 32768] takes more than 67,108,864 bytes",
    ),
    "a huge choice": (
        model(constants_first("Gather", {"c": np.zeros((1, 1 << 16), np.float32), "d": np.zeros(1 << 12, np.int64)})),
        "Gather (in k): a constant of shape [65536, 4096] takes more than 67,108,864 bytes",
    ),
    "many times the same": (
        model(
            (
                [("Concat", ["c"] * 4000, ("k",), {"axis": 0}), ("Add", ("x", "k"), ("y",), {})],
                {"x": (1, 4)},
                {"c": floats(1 << 16)},
            )
        ),
        "Concat (in k): a constant of shape [262144000] takes more than 67,108,864 bytes",
    ),
    "many large constants": (
        model(
            (
                [*(("ConstantOfShape", ("n",), (f"c{i}",), {}) for i in range(50)), ("Add", ("x", "c0"), ("y",), {})],
                {"x": (1, 4)},
                {"n": ints(1 << 23)},
            )
        ),
        "the constants computed at import take more than 536,870,912 bytes",
    ),
    "a map of many rows": (
        model(one("Resize", 1, 4, 9, 8, given=[None, None, ints(1, 4, 1 << 30, 3)])),
        "Resize (in y): its output size 1 x 4 x 1,073,741,824 x 3 is out of range",
    ),
    "a resize by a large matrix": (
        model(one("Resize", 1, 4, 9, 1 << 14, given=[None, None, ints(1, 4, 9, 5000)], mode="cubic")),
        "Resize (in y): it needs an array of 81,920,000 elements",
    ),
    "a pool of a large window": (
        model(one("AveragePool", 1, 4, 9, 8, kernel_shape=[1 << 40, 1], pads=[1 << 40, 0, 1 << 40, 0])),
        "AveragePool (in y): it needs an array of",
    ),
    "a padding by many copies": (
        model(one("Pad", 1, 4, 9, 8, given=[ints(0, 0, 0, 0, 0, 0, 0, 1 << 40)], mode="edge")),
        "Pad (in y): it needs an array of 1,099,511,627,784 elements",
    ),
}


@pytest.mark.parametrize("name", GREEDY)
def test_a_huge_computed_constant_is_refused_before_it_is_computed(name: str) -> None:
    check_refused(*GREEDY[name])
