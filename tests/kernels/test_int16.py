"""Convolutions of int16 maps take the kernels with int32 sums exactly up to the bounds of sums and shifts."""

from __future__ import annotations

import numpy as np
import pytest
from cases.draw import constant, single_op

from tinyweave.ir import Graph, Quant, Tensor
from tinyweave.kernels import int16
from tinyweave.kernels.table import misfit, variant_for
from tinyweave.ops import conv
from tinyweave.ops.fixed_point import requantize_wide

MOST = (1 << 31) - 1
ATTRS = {"stride": (1, 1), "dilation": (1, 1), "padding": ((0, 0), (0, 0)), "activation": "none"}


def layer(factor: float, bias: int) -> Graph:
    """Return a 1x1 convolution of two channels with the weights 127 and -128, and this factor from sums to outputs."""
    x, out = (Tensor(name, (1, 1, 1, 2), "int16", Quant((scale,), (0,))) for name, scale in (("x", 1.0), ("out", 1 / factor)))
    weights = constant("weights", np.array([127, -128], np.int8).reshape(1, 1, 1, 2), Quant((1.0,), (0,)))
    return single_op("conv_2d", [x, weights, constant("bias", np.array([bias]), Quant((1.0,), (0,)))], out, ATTRS)


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_sum_is_an_int32(sign: int) -> None:
    products = (127 + 128) << 15
    for bias, reason in ((MOST - products, ""), (MOST - products + 1, "sum of largest magnitude of filter 0 is 2,147,483,648")):
        graph = layer(2.0**-16, sign * bias)
        assert reason in misfit(graph, graph.ops[0], "tw_conv_2d_s16_dsp")
        assert (variant_for(graph, graph.ops[0], "cortex-m4").name == "tw_conv_2d_s16_dsp") == (not reason)


@pytest.mark.parametrize("factor", [0.5 - 2.0**-20, *(2.0**-e * f for e in range(2, 19) for f in (1.0, 1.37, 1.99999))])
def test_a_product_with_the_factor_rounds_as_the_64_bit_one(factor: float) -> None:
    graph = layer(factor, 0)
    assert not misfit(graph, graph.ops[0], "tw_conv_2d_s16_dsp")
    rng, (factors,) = np.random.default_rng(0), int16.factors(graph, graph.ops[0])
    sums = np.concatenate([rng.integers(-MOST, MOST, 2000), rng.integers(-99999, 99999, 2000), [-MOST, MOST, 0, 1, -1]])
    wide = requantize_wide(sums, *conv.requant(graph, graph.ops[0]))
    assert np.array_equal((sums * int(factors) + (1 << 31)) >> 32, wide)


@pytest.mark.parametrize("factor", [0.5, 2.0**-19])
def test_other_shifts_are_left_to_the_portable_kernel(factor: float) -> None:
    graph = layer(factor, 0)
    assert "shift of filter 0 is" in misfit(graph, graph.ops[0], "tw_conv_2d_s16_mve")
    assert variant_for(graph, graph.ops[0], "cortex-m55").name == "tw_conv_2d_s16"
