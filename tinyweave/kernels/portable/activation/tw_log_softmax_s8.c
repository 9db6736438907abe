/* tw_log_softmax_s8.c - int8 logarithm of a softmax, portable C, with the arithmetic of TFLite's reference. */
#include "tw_softmax.h"

/* How often x > 0 can be doubled within 32 bits. */
static int32_t leading_zeros(int32_t x)
{
    int32_t zeros = 0;
    while (((uint32_t)x << zeros) < 1u << 31) {
        ++zeros;
    }
    return zeros;
}

/* ln(x) in Q5.26 for x >= 1 in Q12.19: x = 2^k * r with r around 2^(-1/4), whose logarithm is a rational function. */
static int32_t logarithm(int32_t x)
{
    const int32_t log_2 = 1488522236, sqrt_sqrt_half = 1805811301, sqrt_half = 1518500250;
    const int32_t alpha_n = 117049297, alpha_d = 127690142, alpha_i = 1057819769, alpha_f = 638450708;
    const int32_t one = 1 << 25, quarter = 1 << 23; /* in Q6.25 */
    const int32_t zeros_a = leading_zeros(x);
    const int32_t r_a = tw_saturating_shift_left(tw_high_mul(tw_shift_left(x, zeros_a - 1), sqrt_half), 1);
    const int32_t power_a = (12 - zeros_a) * one + quarter;
    const int32_t headroom_b = leading_zeros(tw_high_mul(x, sqrt_half)) - 1;
    const int32_t r_b = x > INT32_MAX >> headroom_b ? INT32_MAX : tw_shift_left(x, headroom_b);
    const int32_t power_b = (12 - headroom_b) * one - quarter;
    const int32_t r = tw_min(r_a, r_b), power = tw_max(power_a, power_b);

    const int32_t p = (int32_t)(((int64_t)r + sqrt_sqrt_half + 1) / 2);
    const int32_t q = 2 * (r - sqrt_sqrt_half);
    const int32_t squared = tw_high_mul(q, q);
    const int32_t numerator = tw_high_mul(q, r) + tw_high_mul(tw_high_mul(q, squared), alpha_n);
    const int32_t denominator =
        tw_high_mul(p, alpha_i + q + tw_high_mul(alpha_d, squared)) + tw_high_mul(alpha_f, q);
    const int32_t fraction = tw_high_mul(tw_rounding_shift(numerator, 6), tw_one_over_one_plus(denominator));
    return tw_saturating_shift_left(tw_high_mul(power, log_2) + fraction, 1);
}

static void log_softmax(const tw_log_softmax *p, const int8_t *from, int8_t *to)
{
    const int32_t count = p->shape.c;
    int32_t highest = -128;
    for (int32_t i = 0; i < count; ++i) {
        highest = tw_max(highest, from[i]);
    }
    int32_t sum = 0; /* Q12.19 */
    for (int32_t i = 0; i < count; ++i) {
        const int32_t difference = from[i] - highest;
        if (difference >= p->difference_min) {
            sum += tw_rounding_shift(tw_exp_of_negative(tw_requantize(difference, p->multiplier, p->left_shift)), 12);
        }
    }
    const int32_t log_sum = logarithm(sum);
    const int32_t least = tw_max(p->difference_min - 1,
                                 tw_requantize(log_sum + INT32_MIN, p->reverse_multiplier, p->reverse_shift));
    for (int32_t i = 0; i < count; ++i) {
        const int32_t difference = from[i] - highest;
        int32_t result = -128;
        if (difference > least) {
            const int32_t scaled = tw_requantize(difference, p->multiplier, p->left_shift) - log_sum;
            result = tw_clamp(tw_rounding_shift(scaled, 31 - 5 - 4) + 127, -128, 127);
        }
        to[i] = (int8_t)result;
    }
}

TW_PIXEL_FORMS(tw_log_softmax_s8, tw_log_softmax, p, log_softmax)
