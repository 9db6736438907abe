"""Fast sums are exact, or not used: linear functions for adds, and convolutions of int16 maps with int32 sums."""

from __future__ import annotations

import numpy as np
import pytest
from cases.draw import constant, single_op

from tinyweave.ir import Graph, Quant, Tensor
from tinyweave.kernels import int16
from tinyweave.kernels.dsp import sums
from tinyweave.kernels.table import misfit, variant_for
from tinyweave.ops import conv
from tinyweave.ops.fixed_point import quantize_multiplier, requantize, requantize_wide

VALUES = np.arange(-128, 128)
CLAMPS = ((-128, 127), (-100, 90), (-7, -7))
MOST = (1 << 31) - 1
ATTRS = {"stride": (1, 1), "dilation": (1, 1), "padding": ((0, 0), (0, 0)), "activation": "none"}


def drawn(scales: tuple[float, float, float], zeros: tuple[int, int, int], clamp: tuple[int, int], sign: int = 1) -> sums.Sum:
    a, b, out = scales
    rescales = (quantize_multiplier(scale) for scale in (a / (2 * max(a, b)), b / (2 * max(a, b)), max(a, b) / (2**19 * out)))
    return sums.Sum(*rescales, zeros, sign, clamp)


def test_the_linear_function_of_an_add_is_exact_for_all_operands() -> None:
    """Nearly all adds with random scales have one; each gives the outputs of TFLite's three rescalings."""
    rng, found = np.random.default_rng(1), 0
    for number in range(100):
        a, b = 2.0 ** rng.uniform(-7, -3, 2)
        out, sign = max(a, b) * 2.0 ** rng.uniform(-1, 1.5), int(rng.choice([-1, 1]))
        zeros = tuple(int(zero) for zero in rng.integers(-128, 128, 3))
        given = drawn((a, b, out), zeros, CLAMPS[number % len(CLAMPS)], sign)
        if (line := sums.line(given)) is None:
            continue
        found += 1
        terms = [requantize((VALUES - zero) << 20, *rescale) for zero, rescale in zip(zeros, given[:2], strict=False)]
        expected = np.clip(requantize(terms[0][:, None] + sign * terms[1], *given.output) + zeros[2], *given.clamp)
        total = (VALUES * line.a_factor >> 8)[:, None] + (VALUES * line.b_factor >> 8) + line.constant
        assert np.abs(total).max() < 1 << 31
        assert np.array_equal(np.clip(total >> 20, *given.clamp), expected), given
    assert found > 95


@pytest.mark.parametrize(
    ("scales", "zeros"),
    [
        (
            (2.0**-5, float(np.float32(0.021)), float(np.float32(6 / 255))),
            (-3, 7, -128),
        ),  # sums halfway between two outputs, which TFLite rounds both ways
        ((0.5, 0.5, 0.001), (0, 0, 0)),  # factors exceed int32
        ((0.5, 0.5, 0.08), (-128, -128, 0)),  # sums exceed int32
    ],
)
def test_an_add_that_no_linear_function_equals_has_none(
    scales: tuple[float, float, float], zeros: tuple[int, int, int]
) -> None:
    assert sums.line(drawn(scales, zeros, (-128, 127))) is None


def convolution(factor: float, bias: int) -> Graph:
    """Return a 1x1 convolution of two channels with the weights 127 and -128, and this factor from sums to outputs."""
    x, out = (Tensor(name, (1, 1, 1, 2), "int16", Quant((scale,), (0,))) for name, scale in (("x", 1.0), ("out", 1 / factor)))
    weights = constant("weights", np.array([127, -128], np.int8).reshape(1, 1, 1, 2), Quant((1.0,), (0,)))
    return single_op("conv_2d", [x, weights, constant("bias", np.array([bias]), Quant((1.0,), (0,)))], out, ATTRS)


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_sum_is_an_int32(sign: int) -> None:
    products = (127 + 128) << 15
    for bias, reason in ((MOST - products, ""), (MOST - products + 1, "sum of largest magnitude of filter 0 is 2,147,483,648")):
        graph = convolution(2.0**-16, sign * bias)
        assert reason in misfit(graph, graph.ops[0], "tw_conv_2d_s16_dsp")
        assert (variant_for(graph, graph.ops[0], "cortex-m4").name == "tw_conv_2d_s16_dsp") == (not reason)


@pytest.mark.parametrize("factor", [0.5 - 2.0**-20, *(2.0**-e * f for e in range(2, 19) for f in (1.0, 1.37, 1.99999))])
def test_a_product_with_the_factor_rounds_as_the_64_bit_one(factor: float) -> None:
    graph = convolution(factor, 0)
    assert not misfit(graph, graph.ops[0], "tw_conv_2d_s16_dsp")
    rng, (factors,) = np.random.default_rng(0), int16.factors(graph, graph.ops[0])
    sums = np.concatenate([rng.integers(-MOST, MOST, 2000), rng.integers(-99999, 99999, 2000), [-MOST, MOST, 0, 1, -1]])
    wide = requantize_wide(sums, *conv.requant(graph, graph.ops[0]))
    assert np.array_equal((sums * int(factors) + (1 << 31)) >> 32, wide)


@pytest.mark.parametrize("factor", [0.5, 2.0**-19])
def test_other_shifts_are_left_to_the_portable_kernel(factor: float) -> None:
    graph = convolution(factor, 0)
    assert "shift of filter 0 is" in misfit(graph, graph.ops[0], "tw_conv_2d_s16_mve")
    assert variant_for(graph, graph.ops[0], "cortex-m55").name == "tw_conv_2d_s16"
