/* tw_softmax_s8.c - int8 softmax, portable C: the specification of every faster variant.
 *
 * exp(x - max) in Q31, summed in Q12.19, times the reciprocal of the sum. The arithmetic is gemmlowp's, so that the bytes
 * are TFLite's. Qa.b is a number with a integer and b fraction bits.
 */
#include "tw_softmax_s8.h"

/* x * 2^exponent, saturated; 0 <= exponent <= 5. */
static int32_t saturating_shift_left(int32_t x, int32_t exponent)
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
static int32_t exp_of_negative(int32_t x)
{
    /* exp(-1/4), exp(-1/2), exp(-1), ... exp(-16) in Q31 */
    static const int32_t factors[7] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
    const int32_t one_quarter = 1 << 24;
    const int32_t fraction = (x & (one_quarter - 1)) - one_quarter;
    const int32_t quarters = fraction - x;
    if (x == 0) {
        return INT32_MAX;
    }
    int32_t result = exp_of_fraction(saturating_shift_left(fraction, 5));
    for (int32_t bit = 0; bit < 7; ++bit) {
        if (quarters & (one_quarter << bit)) {
            result = tw_high_mul(result, factors[bit]);
        }
    }
    return result;
}

/* 1 / (1 + a) in Q31 for 0 <= a < 1 in Q31: Newton's iteration on Q2.29. */
static int32_t one_over_one_plus(int32_t a)
{
    const int32_t half_denominator = (int32_t)(((uint32_t)a + (1u << 31)) >> 1);
    int32_t x = 1515870810 + tw_high_mul(half_denominator, -1010580540); /* 48/17 - 32/17 d */
    for (int32_t i = 0; i < 3; ++i) {
        const int32_t error = (1 << 29) - tw_high_mul(half_denominator, x);
        x += saturating_shift_left(tw_high_mul(x, error), 2);
    }
    return saturating_shift_left(x, 1);
}

/* exp of an element that lies `difference` above the maximum. */
static int32_t exp_of_difference(const tw_softmax *p, int32_t difference)
{
    return exp_of_negative(tw_high_mul(tw_shift_left(difference, p->left_shift), p->multiplier));
}

static void softmax(const tw_softmax *p, const int8_t *from, int8_t *to)
{
    const int32_t count = p->shape.c;
    int32_t highest = -128;
    for (int32_t i = 0; i < count; ++i) {
        highest = tw_max(highest, from[i]);
    }
    int32_t sum = 0; /* Q12.19 */
    for (int32_t i = 0; i < count; ++i) {
        if (from[i] - highest >= p->difference_min) {
            sum += tw_rounding_shift(exp_of_difference(p, from[i] - highest), 12);
        }
    }
    int32_t headroom = 0; /* leading zeros of the sum */
    while (((uint32_t)sum << headroom) < 1u << 31) {
        ++headroom;
    }
    const int32_t scale = one_over_one_plus((int32_t)(((uint32_t)sum << headroom) - (1u << 31)));
    const int32_t right = 12 - headroom + 31 - 8;
    for (int32_t i = 0; i < count; ++i) {
        int32_t result = 0;
        if (from[i] - highest >= p->difference_min && right <= 31) {
            result = tw_rounding_shift(tw_high_mul(scale, exp_of_difference(p, from[i] - highest)), right);
        }
        to[i] = (int8_t)(tw_min(result, 255) - 128);
    }
}

void tw_softmax_s8_part(const tw_softmax *p, tw_view in, tw_view out, tw_range range)
{
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *from = (const int8_t *)tw_pixel(&in, y, range.col_begin, p->shape.c);
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, p->shape.c);
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            softmax(p, from, to);
            from += p->shape.c;
            to += p->shape.c;
        }
    }
}

void tw_softmax_s8(const tw_softmax *p, const void *in, void *out)
{
    tw_softmax_s8_part(p, tw_whole(in, p->shape), tw_whole(out, p->shape), tw_all(p->shape));
}
