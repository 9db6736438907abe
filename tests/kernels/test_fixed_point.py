"""The fixed-point functions in C equal those of `ops`. Rounding to int8 in a kernel could hide such differences."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from tinyweave.kernels.table import FILES, sources
from tinyweave.ops import fixed_point
from tinyweave.ops.normalization import log_softmax
from tinyweave.ops.recurrent import q15
from tinyweave.support import toolchain

INT32 = np.iinfo(np.int32)
COUNT = 200_000
EDGES = (0, 1, 2, 3, 4)
# multipliers of 63 bits whose low half always carries, never, at times, and as one with 53 bits does
EXACT = ((1 << 63) - 1, 1 << 62, (1 << 62) + (1 << 31), (0x40008001 << 32) + 0xFFFFFFFF, 0x5A82799FCEF32422 & -1024, 0)
# C function of one array -> its expression of x and of a second number n
EXPRESSIONS = {
    "logarithm": "logarithm(x)",
    "exp_of_negative": "tw_exp_of_negative(-x)",
    "one_over_one_plus": "tw_one_over_one_plus(x)",
    "saturating_shift_left": "tw_saturating_shift_left(x, n)",
    "high_mul": "tw_high_mul(x, n)",
    **{f"rescale_down_{each}": f"tw_rescale_down(x, 2u * (uint32_t)n, {each} - 1)" for each in (1, 2, 8, 31)},
    "rounding_shift": "tw_rounding_shift(x, n)",
    **{f"requantize_once_{each}": f"tw_requantize_once(x, {each}, n)" for each in EXACT},
    "saturate16": "tw_saturate16(x)",
    "high_mul16": "tw_high_mul16(x, n)",
    "logistic_q15": "tw_logistic_q15(x, n)",
    "tanh_q15": "tw_tanh_q15(x, n)",
}
FILES_OF_C = ("all.c", "tw_softmax.c", "tw_q15.c")
FLAGS = ("-std=c99", "-DTW_PLAIN_C", "-O1", "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error", "-fPIC", "-shared")
Function = Callable[[np.ndarray, int], np.ndarray]


# next to where a half of 16 bits changes its sign or carries, and at random
FACTORS = [sign * (power + near) for sign in (1, -1) for power in (0, 1 << 15, 1 << 16, 1 << 30) for near in (-1, 0, 1)]
FACTORS += [INT32.max, INT32.max - 0xFFFF, 0x7FFF8000, -0x7FFF8000, 1518500250, -1010580540]
FACTORS += np.random.default_rng(31).integers(-INT32.max, INT32.max, 20).tolist()


@pytest.fixture(scope="module", params=["", "-DTW_NO_LONG_PRODUCTS"])
def functions(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> dict[str, Function]:
    folder = tmp_path_factory.mktemp("fixed_point")
    loops = [
        f"void test_{name}(const int32_t *from, int32_t *to, int32_t count, int32_t n)\n"
        f"{{\n    (void)n;\n    for (int32_t i = 0; i < count; ++i) {{\n        const int32_t x = from[i];\n"
        f"        to[i] = {expression};\n    }}\n}}\n"
        for name, expression in EXPRESSIONS.items()
    ]
    head = '#include "tw_log_softmax_s8.c"\n#include "tw_q15.h"\n#include "tw_conv_scalar.h"\n'  # their logarithm is static
    (folder / "all.c").write_text(head + "\n".join(loops))
    for path in {*sources(["tw_log_softmax_s8", "tw_conv_2d_s8_scalar"]), FILES["tw_q15.h"], FILES["tw_q15.c"]}:
        (folder / path.name).write_text(path.read_text())
    compiler, target = toolchain.host(), folder / "all.so"
    toolchain.compile_c(
        compiler,
        [*FLAGS, *request.param.split(), *(folder / name for name in FILES_OF_C), "-o", target],
    )
    library = ctypes.CDLL(str(target))

    def wrapped(name: str) -> Function:
        def call(x: np.ndarray, n: int = 0) -> np.ndarray:
            given, result = np.ascontiguousarray(x, np.int32), np.empty(len(x), np.int32)
            places = (array.ctypes.data_as(ctypes.c_void_p) for array in (given, result))
            getattr(library, f"test_{name}")(*places, len(given), n)
            return result.astype(np.int64)

        return call

    return {name: wrapped(name) for name in EXPRESSIONS}


def numbers(low: int, high: int) -> np.ndarray:
    """Return uniform and log-uniform random numbers in [low, high], and numbers next to the ends and to powers of two."""
    rng = np.random.default_rng(high - low)
    powers = [(1 << bit) + near for bit in range(32) for near in (-1, 0, 1)]
    edges = [low + edge for edge in EDGES] + [high - edge for edge in EDGES] + powers + [-power for power in powers]
    small = (rng.uniform(-1, 1, COUNT) * 2.0 ** rng.uniform(0, 31, COUNT)).astype(np.int64)
    found = np.concatenate([rng.integers(low, high, COUNT, endpoint=True), small, np.array(edges, np.int64)])
    return found[(found >= low) & (found <= high)]


def test_the_logarithm_in_c_equals_ops(functions: dict[str, Function]) -> None:
    x = numbers(1 << 19, INT32.max)
    assert np.array_equal(functions["logarithm"](x), log_softmax.logarithm(x))


def test_exponential_and_reciprocal_in_c_equal_ops(functions: dict[str, Function]) -> None:
    x = numbers(0, INT32.max)
    assert np.array_equal(functions["exp_of_negative"](x), fixed_point.exp_on_negative_values(-x))
    assert np.array_equal(functions["one_over_one_plus"](x), fixed_point.one_over_one_plus(x))


@pytest.mark.parametrize("n", range(1, 32))
def test_shifts_in_c_equal_ops(functions: dict[str, Function], n: int) -> None:
    x = numbers(INT32.min + 1, INT32.max - 1)  # a high product is neither end
    if n <= 5:
        assert np.array_equal(functions["saturating_shift_left"](x, n), fixed_point.saturating_shift_left(x, n))
    assert np.array_equal(functions["rounding_shift"](x, n), fixed_point.rounding_shift(x, n))


@pytest.mark.parametrize("n", sorted({*FACTORS}))
def test_high_products_in_c_equal_ops(functions: dict[str, Function], n: int) -> None:
    x = numbers(INT32.min, INT32.max)
    assert np.array_equal(functions["high_mul"](x, n), fixed_point.high_mul(x, n))


@pytest.mark.parametrize("shift", [29, 8, 0, -1, -2, -3, -9, -16, -31, -32])
@pytest.mark.parametrize("multiplier", EXACT)
def test_rescales_of_dense_layers_in_c_equal_ops(functions: dict[str, Function], multiplier: int, shift: int) -> None:
    x = numbers(INT32.min, INT32.max)
    expected, found = fixed_point.requantize_once(x, multiplier, shift), functions[f"requantize_once_{multiplier}"](x, shift)
    assert np.array_equal(*(np.clip(each, -(1 << 28), 1 << 28) for each in (found, expected)))


@pytest.mark.parametrize("n", [0, 1 << 30, (1 << 30) + 1, 1518500250, INT32.max])
def test_downward_rescales_in_c_equal_ops(functions: dict[str, Function], n: int) -> None:
    x = numbers(INT32.min, INT32.max)
    high = fixed_point.high_mul(x, n)
    for exponent in (1, 2, 8, 31):
        inside = high < INT32.max if exponent == 1 else high <= INT32.max
        found = functions[f"rescale_down_{exponent}"](x[inside], n)
        assert np.array_equal(found, fixed_point.rounding_shift(high[inside], exponent))


@pytest.mark.parametrize("n", [0, 1, -1, 1 << 14, 32767, -32768, 10923])
def test_16_bit_products_and_saturation_in_c_equal_ops(functions: dict[str, Function], n: int) -> None:
    x = np.arange(-(1 << 16), 1 << 16)
    assert np.array_equal(functions["saturate16"](x), q15.saturate(x))
    x = x[(x >= -(1 << 15) + 1) & (x < 1 << 15)]
    assert np.array_equal(functions["high_mul16"](x, n), q15.multiply(x, n))


@pytest.mark.parametrize("bits", range(7))
def test_q15_functions_in_c_equal_ops_for_all_inputs(functions: dict[str, Function], bits: int) -> None:
    x = np.arange(-(1 << 15), 1 << 15)
    assert np.array_equal(functions["logistic_q15"](x, bits), q15.logistic(x, bits))
    assert np.array_equal(functions["tanh_q15"](x, bits), q15.tanh(x, bits))
