/* tw_softmax.h - softmax in fixed point: exp(x - max) in Q31, summed in Q12.19, times the reciprocal of the sum.
 *
 * The arithmetic is gemmlowp's, so that the bytes are TFLite's. Qa.b is a number with a integer and b fraction bits.
 */
#ifndef TW_SOFTMAX_H
#define TW_SOFTMAX_H

#include "tw.h"

typedef struct {
    tw_shape shape;                  /* of input and output; c < 4096 */
    int32_t multiplier, left_shift;  /* from x - max to Q5.26, beta included */
    int32_t difference_min;          /* elements further below the maximum count as 0 */
} tw_softmax;

/* x * 2^exponent, saturated; 0 <= exponent <= 5. */
static inline int32_t tw_saturating_shift_left(int32_t x, int32_t exponent)
{
    const int32_t limit = INT32_MAX >> exponent;
    if (x > limit) {
        return INT32_MAX;
    }
    return x < -limit - 1 ? INT32_MIN : tw_shift_left(x, exponent);
}

/* exp(a) in Q31 for -1/4 <= a < 0 in Q31: a Taylor series around -1/8. */
static inline int32_t tw_exp_of_fraction(int32_t a)
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
static inline int32_t tw_exp_of_negative(int32_t x)
{
    /* exp(-1/4), exp(-1/2), exp(-1), ... exp(-16) in Q31 */
    static const int32_t factors[7] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
    const int32_t one_quarter = 1 << 24;
    const int32_t fraction = (x & (one_quarter - 1)) - one_quarter;
    const int32_t quarters = fraction - x;
    if (x == 0) {
        return INT32_MAX;
    }
    int32_t result = tw_exp_of_fraction(tw_saturating_shift_left(fraction, 5));
    for (int32_t bit = 0; bit < 7; ++bit) {
        if (quarters & (one_quarter << bit)) {
            result = tw_high_mul(result, factors[bit]);
        }
    }
    return result;
}

/* 1 / (1 + a) in Q31 for 0 <= a < 1 in Q31: Newton's iteration on Q2.29. */
static inline int32_t tw_one_over_one_plus(int32_t a)
{
    const int32_t half_denominator = (int32_t)(((uint32_t)a + (1u << 31)) >> 1);
    int32_t x = 1515870810 + tw_high_mul(half_denominator, -1010580540); /* 48/17 - 32/17 d */
    for (int32_t i = 0; i < 3; ++i) {
        const int32_t error = (1 << 29) - tw_high_mul(half_denominator, x);
        x += tw_saturating_shift_left(tw_high_mul(x, error), 2);
    }
    return tw_saturating_shift_left(x, 1);
}

/* exp of an element that lies `difference` above the maximum. */
static inline int32_t tw_exp_of_difference(const tw_softmax *p, int32_t difference)
{
    return tw_exp_of_negative(tw_high_mul(tw_shift_left(difference, p->left_shift), p->multiplier));
}

/* What all elements of a pixel share: the largest, and the reciprocal of the sum of exponentials with its headroom. */
typedef struct { int32_t highest, scale, headroom; } tw_softmax_pixel;

static inline tw_softmax_pixel tw_softmax_sum(const tw_softmax *p, const int8_t *from)
{
    tw_softmax_pixel pixel = {-128, 0, 0};
    int32_t sum = 0; /* Q12.19 */
    for (int32_t i = 0; i < p->shape.c; ++i) {
        pixel.highest = tw_max(pixel.highest, from[i]);
    }
    for (int32_t i = 0; i < p->shape.c; ++i) {
        if (from[i] - pixel.highest >= p->difference_min) {
            sum += tw_rounding_shift(tw_exp_of_difference(p, from[i] - pixel.highest), 12);
        }
    }
    while (((uint32_t)sum << pixel.headroom) < 1u << 31) {
        ++pixel.headroom;
    }
    pixel.scale = tw_one_over_one_plus((int32_t)(((uint32_t)sum << pixel.headroom) - (1u << 31)));
    return pixel;
}

/* The share of an element in units of 2^-bits, less than 2^bits. */
static inline int32_t tw_softmax_element(const tw_softmax *p, const tw_softmax_pixel *pixel, int32_t x, int32_t bits)
{
    const int32_t right = 12 - pixel->headroom + 31 - bits;
    if (x - pixel->highest < p->difference_min || right > 31) {
        return 0;
    }
    const int32_t share = tw_high_mul(pixel->scale, tw_exp_of_difference(p, x - pixel->highest));
    return tw_min(tw_rounding_shift(share, right), (1 << bits) - 1);
}

#endif
