/* tw_q15.h - logistic and tanh of 16-bit fixed-point numbers, as gemmlowp computes them. Results are in Q0.15. */
#ifndef TW_Q15_H
#define TW_Q15_H

#include "tw.h"

static inline int32_t tw_saturate16(int32_t x) { return tw_clamp(x, -32768, 32767); }

/* a * b / 2^15, rounded half up; a and b must not both be -2^15. */
static inline int32_t tw_high_mul16(int32_t a, int32_t b) { return (a * b + (1 << 14)) >> 15; }

/* exp(-x) for x >= 0 with `integer_bits` integer bits, 0 .. 7. */
int32_t tw_exp_q15(int32_t x, int32_t integer_bits);

/* 1 / (1 + exp(-x)), integer_bits 0 .. 7. */
int32_t tw_logistic_q15(int32_t x, int32_t integer_bits);

/* tanh(x), integer_bits 0 .. 6. */
int32_t tw_tanh_q15(int32_t x, int32_t integer_bits);

#endif
