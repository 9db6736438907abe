/* tw_q15.c - logistic and tanh of 16-bit fixed-point numbers, with gemmlowp's arithmetic, so that the bytes are TFLite's. */
#include "tw_q15.h"

/* result * exp(-2^(k - 2)) if bit k of a number of quarters is set. */
static inline int32_t exp_step(int32_t result, int32_t quarters, int32_t k, int32_t power)
{
    return quarters & (1 << k) ? tw_high_mul16(result, power) : result;
}

int32_t tw_exp_q15(int32_t x, int32_t integer_bits)
{
    const int32_t quarter_bits = 13 - integer_bits, quarter = 1 << quarter_bits;
    const int32_t fraction = (-x & (quarter - 1)) - quarter; /* in [-1/4, 0) */
    const int32_t quarters = (fraction + x) >> quarter_bits;
    /* a Taylor series around -1/8; no number that is halved is negative, so adding a half before the shift rounds it */
    const int32_t exp_minus_one_eighth = 28918, one_third = 10923;
    const int32_t a = tw_shift_left(fraction, integer_bits) + (1 << 12);
    const int32_t a2 = tw_high_mul16(a, a);
    const int32_t a3 = tw_high_mul16(a2, a);
    const int32_t a4_over_4 = (tw_high_mul16(a2, a2) + 2) >> 2;
    const int32_t higher = (tw_high_mul16(a4_over_4 + a3, one_third) + a2 + 1) >> 1;
    int32_t result = exp_minus_one_eighth + tw_high_mul16(exp_minus_one_eighth, a + higher);

    if (x == 0) {
        return 32767;
    }
    if (quarters >= 64) { /* exp(-16) is below 2^-16 */
        return 0;
    }
    /* not a loop, which would take as many instructions as its multiplications */
    result = exp_step(result, quarters, 0, 25520);
    result = exp_step(result, quarters, 1, 19875);
    result = exp_step(result, quarters, 2, 12055);
    result = exp_step(result, quarters, 3, 4435);
    result = exp_step(result, quarters, 4, 600);
    return exp_step(result, quarters, 5, 11);
}

/* A Newton step from x towards 1 / half_denominator in Q2.13. gemmlowp saturates the correction to int16, which no half denominator
 * from 1/2 to 1 needs. */
static inline int32_t newton_step(int32_t half_denominator, int32_t x)
{
    const int32_t error = (1 << 13) - tw_high_mul16(half_denominator, x);
    return x + tw_shift_left(tw_high_mul16(x, error), 2);
}

/* 2 / (1 + x) in Q2.13 for 0 <= x < 1 in Q0.15, by three Newton steps. */
static int32_t reciprocal(int32_t x)
{
    const int32_t half_denominator = (x + 32768) >> 1;
    int32_t result = 23130 + tw_high_mul16(half_denominator, -15420); /* 48/17 - 32/17 d */
    result = newton_step(half_denominator, result);
    result = newton_step(half_denominator, result);
    return newton_step(half_denominator, result);
}

int32_t tw_logistic_q15(int32_t x, int32_t integer_bits)
{
    const int32_t positive = tw_min(reciprocal(tw_exp_q15(x < 0 ? -x : x, integer_bits)) * 2, 32767);
    return x == 0 ? 1 << 14 : x > 0 ? positive : 32767 - positive;
}

int32_t tw_tanh_q15(int32_t x, int32_t integer_bits)
{
    /* exp(-2 |x|): the same bits with one more integer bit */
    const int32_t result = reciprocal(tw_exp_q15(x < 0 ? -x : x, integer_bits + 1));
    const int32_t positive = tw_min((result - (1 << 13)) * 4, 32767);
    return x == 0 ? 0 : x > 0 ? positive : -positive;
}
