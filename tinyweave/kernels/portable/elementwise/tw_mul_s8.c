/* tw_mul_s8.c - int8 product with broadcasting, portable C: the specification of every faster variant. */
#include "tw_binary.h"

/* count elements; an operand moves by its step, 0 or 1, per element. */
static void mul_run(const tw_mul *params, const int8_t *a, int32_t a_step, const int8_t *b, int32_t b_step, int8_t *to,
                    int32_t count)
{
    const tw_mul p = *params; /* a copy, since stores through `to` might change the original */
    const int32_t low = p.out_min - p.out_zero, high = p.out_max - p.out_zero;
    for (int32_t i = 0; i < count; ++i) {
        const int32_t product = (*a - p.a_zero) * (*b - p.b_zero);
        const int32_t scaled = tw_requantize(product, p.multiplier, p.shift);
        *to++ = (int8_t)(tw_clamp(scaled, low, high) + p.out_zero);
        a += a_step;
        b += b_step;
    }
}

TW_BINARY_FORMS(tw_mul_s8, tw_mul, mul_run)
