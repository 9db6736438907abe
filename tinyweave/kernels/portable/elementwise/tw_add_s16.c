/* tw_add_s16.c - int16 sum or difference with broadcasting, portable C. */
#include "tw_binary.h"

static int32_t sum(const tw_add *p, int32_t a, int32_t b)
{
    const int32_t scaled_a = tw_requantize(tw_shift_left(a - p->a_zero, p->left_shift), p->a_multiplier, p->a_shift);
    const int32_t scaled_b = tw_requantize(tw_shift_left(b - p->b_zero, p->left_shift), p->b_multiplier, p->b_shift);
    return tw_requantize(scaled_a + p->b_sign * scaled_b, p->out_multiplier, p->out_shift);
}

TW_BINARY_S16_FORM(tw_add_s16, tw_add, sum)
