/* tw_compare_s16.c - whether an int16 operand is less than, equal to or greater than another, with broadcasting, portable C. */
#include "tw_binary.h"

static int32_t element(const tw_compare *p, int32_t a, int32_t b)
{
    const int32_t scaled_a = tw_requantize(tw_shift_left(a, p->left_shift), p->a_multiplier, p->a_shift);
    const int32_t scaled_b = tw_requantize(tw_shift_left(b, p->left_shift), p->b_multiplier, p->b_shift);
    return p->holds >> (1 + (scaled_a > scaled_b) - (scaled_a < scaled_b)) & 1;
}

TW_EACH_S16_FORM(tw_compare_s16, tw_compare, int16_t, int8_t, element(p, x, y))
