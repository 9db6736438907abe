/* tw_compare_s8.c - whether an int8 operand is less than, equal to or greater than another, with broadcasting, portable C. */
#include "tw_binary.h"

/* count elements; an operand moves by its step, 0 or 1, per element. */
static void compare_run(const tw_compare *params, const int8_t *a, int32_t a_step, const int8_t *b, int32_t b_step, int8_t *to,
                        int32_t count)
{
    const tw_compare p = *params; /* a copy, since stores through `to` might change the original */
    for (int32_t i = 0; i < count; ++i) {
        const int32_t scaled_a = tw_requantize(tw_shift_left(*a - p.a_zero, p.left_shift), p.a_multiplier, p.a_shift);
        const int32_t scaled_b = tw_requantize(tw_shift_left(*b - p.b_zero, p.left_shift), p.b_multiplier, p.b_shift);
        *to++ = (int8_t)(p.holds >> (1 + (scaled_a > scaled_b) - (scaled_a < scaled_b)) & 1);
        a += a_step;
        b += b_step;
    }
}

TW_BINARY_FORMS(tw_compare_s8, tw_compare, compare_run)
