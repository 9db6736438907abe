/* tw_squared_difference_s8.c - the square of an int8 difference with broadcasting, portable C. */
#include "tw_binary.h"

/* count elements; an operand moves by its step, 0 or 1, per element. */
static void square_run(const tw_add *params, const int8_t *a, int32_t a_step, const int8_t *b, int32_t b_step, int8_t *to,
                       int32_t count)
{
    const tw_add p = *params; /* a copy, since stores through `to` might change the original */
    const int32_t low = p.out_min - p.out_zero, high = p.out_max - p.out_zero;
    for (int32_t i = 0; i < count; ++i) {
        const int32_t scaled_a = tw_requantize(tw_shift_left(*a - p.a_zero, p.left_shift), p.a_multiplier, p.a_shift);
        const int32_t scaled_b = tw_requantize(tw_shift_left(*b - p.b_zero, p.left_shift), p.b_multiplier, p.b_shift);
        const int32_t difference = scaled_a - scaled_b; /* within +-32640, since both operands are halved at least */
        const int32_t scaled = tw_requantize(difference * difference, p.out_multiplier, p.out_shift);
        *to++ = (int8_t)(tw_clamp(scaled, low, high) + p.out_zero);
        a += a_step;
        b += b_step;
    }
}

TW_BINARY_FORMS(tw_squared_difference_s8, tw_add, square_run)
