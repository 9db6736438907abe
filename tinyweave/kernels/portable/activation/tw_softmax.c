/* tw_softmax.c - exponentials and reciprocals in fixed point, with gemmlowp's arithmetic, so that the bytes are TFLite's. */
#include "tw_softmax.h"

/* x * 2^exponent, saturated; 0 <= exponent <= 6. */
int32_t tw_saturating_shift_left(int32_t x, int32_t exponent)
{
    const int32_t limit = INT32_MAX >> exponent;
    if (x > limit) {
        return INT32_MAX;
    }
    return x < -limit - 1 ? INT32_MIN : tw_shift_left(x, exponent);
}

/* exp(a) in Q31 for -1/4 <= a < 0 in Q31: a Taylor series around -1/8. */
static int32_t exp_of_fraction(int32_t a)
{
    const int32_t exp_minus_one_eighth = 1895147668, one_third = 715827883;
    const int32_t x = a + (1 << 28);
    const int32_t x2 = tw_high_mul(x, x);
    const int32_t x3 = tw_high_mul(x2, x);
    const int32_t x4_over_4 = tw_rounding_shift(tw_high_mul(x2, x2), 2);
    const int32_t higher_terms = tw_rounding_shift(tw_high_mul(x4_over_4 + x3, one_third) + x2, 1);
    return exp_minus_one_eighth + tw_high_mul(exp_minus_one_eighth, x + higher_terms);
}

/* exp(x) in Q31 for x <= 0 in Q5.26. */
int32_t tw_exp_of_negative(int32_t x)
{
    /* exp(-1/4), exp(-1/2), exp(-1), ... exp(-16) in Q31 */
    static const int32_t factors[7] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
    const int32_t one_quarter = 1 << 24;
    const int32_t fraction = (x & (one_quarter - 1)) - one_quarter;
    const int32_t quarters = fraction - x;
    if (x == 0) {
        return INT32_MAX;
    }
    int32_t result = exp_of_fraction(tw_saturating_shift_left(fraction, 5));
    for (int32_t bit = 0; bit < 7; ++bit) {
        if (quarters & (one_quarter << bit)) {
            result = tw_high_mul(result, factors[bit]);
        }
    }
    return result;
}

/* 1 / (1 + a) in Q31 for 0 <= a < 1 in Q31: Newton's iteration on Q2.29. */
int32_t tw_one_over_one_plus(int32_t a)
{
    const int32_t half_denominator = (int32_t)(((uint32_t)a + (1u << 31)) >> 1);
    int32_t x = 1515870810 + tw_high_mul(half_denominator, -1010580540); /* 48/17 - 32/17 d */
    for (int32_t i = 0; i < 3; ++i) {
        const int32_t error = (1 << 29) - tw_high_mul(half_denominator, x);
        x += tw_saturating_shift_left(tw_high_mul(x, error), 2);
    }
    return tw_saturating_shift_left(x, 1);
}
