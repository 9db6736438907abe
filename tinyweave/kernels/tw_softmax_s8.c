/* tw_softmax_s8.c - int8 softmax, portable C: the specification of every faster variant.
 *
 * exp(x - max) in Q31, summed in Q12.19, times the reciprocal of the sum. The arithmetic is gemmlowp's, so that the bytes
 * are TFLite's. Qa.b is a number with a integer and b fraction bits.
 */
#include "tw_softmax_s8.h"

#include "tw_exp.h"

/* exp of an element that lies `difference` above the maximum. */
static int32_t exp_of_difference(const tw_softmax *p, int32_t difference)
{
    return tw_exp_of_negative(tw_high_mul(tw_shift_left(difference, p->left_shift), p->multiplier));
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
    const int32_t scale = tw_one_over_one_plus((int32_t)(((uint32_t)sum << headroom) - (1u << 31)));
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
