/* tw_q15.h - logistic and tanh of 16-bit fixed-point numbers, as gemmlowp computes them. Results are in Q0.15. */
#ifndef TW_Q15_H
#define TW_Q15_H

#include "tw.h"

static inline int32_t tw_saturate16(int32_t x) { return tw_clamp(x, -32768, 32767); }

/* a * b / 2^15, rounded half up; a and b must not both be -2^15. */
static inline int32_t tw_high_mul16(int32_t a, int32_t b) { return (a * b + (1 << 14)) >> 15; }

/* 2 / (1 + exp(-x)) in Q2.13, for x >= 0 in units of 2^-15, below 2^23. */
int32_t tw_reciprocal_q13(int32_t x);

/* 1 / (1 + exp(-x)), integer_bits 0 .. 7. */
static inline int32_t tw_logistic_q15(int32_t x, int32_t integer_bits)
{
    const int32_t sign = x >> 31, twice = 2 * tw_reciprocal_q13(tw_shift_left((x ^ sign) - sign, integer_bits));
    return tw_min(twice, 32767) ^ (sign & 32767); /* of a negative x: 1 - the logistic of -x */
}

/* tanh(x), integer_bits 0 .. 6. */
static inline int32_t tw_tanh_q15(int32_t x, int32_t integer_bits)
{
    /* exp(-2 |x|): the same bits with one more integer bit */
    const int32_t sign = x >> 31, half = tw_reciprocal_q13(tw_shift_left((x ^ sign) - sign, integer_bits + 1));
    return (tw_min((half - (1 << 13)) * 4, 32767) ^ sign) - sign;
}

#endif
