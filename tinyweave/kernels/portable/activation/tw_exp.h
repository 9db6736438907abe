/* tw_exp.h - exponentials and reciprocals in fixed point. Qa.b is a number with a integer and b fraction bits. */
#ifndef TW_EXP_H
#define TW_EXP_H

#include "tw.h"

/* x * 2^exponent, saturated; 0 <= exponent <= 5. */
int32_t tw_saturating_shift_left(int32_t x, int32_t exponent);

/* exp(x) in Q31 for x <= 0 in Q5.26. */
int32_t tw_exp_of_negative(int32_t x);

/* 1 / (1 + a) in Q31 for 0 <= a < 1 in Q31. */
int32_t tw_one_over_one_plus(int32_t a);

#endif
