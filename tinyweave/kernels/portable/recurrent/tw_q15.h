/* tw_q15.h - logistic and tanh of 16-bit fixed-point numbers, as gemmlowp computes them. Results are in Q0.15. */
#ifndef TW_Q15_H
#define TW_Q15_H

#include "tw.h"

static inline int32_t tw_saturate16(int32_t x) { return tw_clamp(x, -32768, 32767); }

/* a * b / 2^15, rounded half up; a and b must not both be -2^15. */
static inline int32_t tw_high_mul16(int32_t a, int32_t b) { return (a * b + (1 << 14)) >> 15; }

/* exp(-x) for x >= 0 with `integer_bits` integer bits, 0 .. 7. */
static inline int32_t tw_exp_q15(int32_t x, int32_t integer_bits)
{
    static const int16_t powers[7] = {25520, 19875, 12055, 4435, 600, 11, 0}; /* exp(-2^k), k = -2 .. 4 */
    const int32_t fraction_bits = 15 - integer_bits;
    const int32_t quarter = 1 << (fraction_bits - 2);
    const int32_t fraction = (-x & (quarter - 1)) - quarter; /* in [-1/4, 0) */
    const int32_t remainder = fraction + x;                  /* a multiple of 1/4 */
    /* a Taylor series around -1/8 */
    const int32_t exp_minus_one_eighth = 28918, one_third = 10923;
    const int32_t a = tw_shift_left(fraction, integer_bits) + (1 << 12);
    const int32_t a2 = tw_high_mul16(a, a);
    const int32_t a3 = tw_high_mul16(a2, a);
    const int32_t a4_over_4 = tw_rounding_shift(tw_high_mul16(a2, a2), 2);
    const int32_t higher = tw_rounding_shift(tw_high_mul16(a4_over_4 + a3, one_third) + a2, 1);
    int32_t result = tw_saturate16(exp_minus_one_eighth + tw_high_mul16(exp_minus_one_eighth, a + higher));

    if (x == 0) {
        return 32767;
    }
    if (integer_bits > 5 && x > 32 << fraction_bits) {
        return 0;
    }
    for (int32_t k = 0; k < integer_bits + 2; ++k) {
        if (remainder & (quarter << k)) {
            result = tw_high_mul16(result, powers[k]);
        }
    }
    return result;
}

/* 2 / (1 + x) in Q2.13 for 0 <= x < 1 in Q0.15, by three Newton steps. */
static inline int32_t tw_reciprocal_q15(int32_t x)
{
    const int32_t half_denominator = (x + 32768) >> 1;
    int32_t result = 23130 + tw_high_mul16(half_denominator, -15420); /* 48/17 - 32/17 d */
    for (int32_t step = 0; step < 3; ++step) {
        const int32_t error = (1 << 13) - tw_high_mul16(half_denominator, result);
        result += tw_saturate16(tw_shift_left(tw_high_mul16(result, error), 2));
    }
    return result;
}

/* 1 / (1 + exp(-x)). */
static inline int32_t tw_logistic_q15(int32_t x, int32_t integer_bits)
{
    const int32_t positive = tw_saturate16(tw_reciprocal_q15(tw_exp_q15(x < 0 ? -x : x, integer_bits)) * 2);
    return x == 0 ? 1 << 14 : x > 0 ? positive : 32767 - positive;
}

/* tanh(x), integer_bits 0 .. 6. */
static inline int32_t tw_tanh_q15(int32_t x, int32_t integer_bits)
{
    /* exp(-2 |x|): the same bits with one more integer bit */
    const int32_t reciprocal = tw_reciprocal_q15(tw_exp_q15(x < 0 ? -x : x, integer_bits + 1));
    const int32_t positive = tw_saturate16((reciprocal - (1 << 13)) * 4);
    return x == 0 ? 0 : x > 0 ? positive : -positive;
}

#endif
