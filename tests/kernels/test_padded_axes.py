"""A pad of more than four axes is reduced to four by merging unpadded axes into the preceding axis."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from cases.draw import constant, single_op

from tinyweave.ir import Quant, Tensor
from tinyweave.kernels.copies import padded


@pytest.mark.parametrize("which", [*product((False, True), repeat=5)], ids=str)
def test_an_unpadded_axis_is_merged_into_the_preceding_axis(which: tuple[bool, ...]) -> None:
    shape, quant = (2, 3, 2, 3, 2), Quant((0.5,), (3,))
    around = np.array([(1, 2) if is_padded else (0, 0) for is_padded in which], np.int32)
    out = tuple(int(extent + sum(pair)) for extent, pair in zip(shape, around, strict=True))
    tensors = Tensor("x", shape, "int8", quant), Tensor("y", out, "int8", quant)
    graph = single_op("pad", [tensors[0], constant("paddings", around)], tensors[1], {})
    box = padded(graph, graph.ops[0])
    assert (box is None) == all(which[1:])
    if box is not None:
        x = np.arange(1, np.prod(shape) + 1).reshape(shape)
        whole = np.zeros(box.outer, x.dtype)
        whole[tuple(slice(at, at + size) for at, size in zip(box.before, box.inner, strict=True))] = x.reshape(box.inner)
        assert np.array_equal(whole.reshape(out), np.pad(x, around))
