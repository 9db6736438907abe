/* tw_mul_s16.c - int16 product with broadcasting, portable C. */
#include "tw_binary.h"

static int32_t product(const tw_mul *p, int32_t a, int32_t b)
{
    return tw_requantize((a - p->a_zero) * (b - p->b_zero), p->multiplier, p->shift);
}

TW_BINARY_S16_FORM(tw_mul_s16, tw_mul, product)
