/* tw_prelu_s8.c - int8 leaky relu whose slope is an operand with broadcasting, portable C. */
#include "tw_binary.h"

/* count elements; an operand moves by its step, 0 or 1, per element. */
static void prelu_run(const tw_prelu *params, const int8_t *a, int32_t a_step, const int8_t *b, int32_t b_step, int8_t *to,
                      int32_t count)
{
    const tw_prelu p = *params; /* a copy, since stores through `to` might change the original */
    const int32_t low = -128 - p.out_zero, high = 127 - p.out_zero;
    for (int32_t i = 0; i < count; ++i) {
        const int32_t x = *a - p.a_zero;
        const int32_t scaled = x >= 0 ? tw_requantize(x, p.positive_multiplier, p.positive_shift)
                                      : tw_requantize(x * (*b - p.b_zero), p.negative_multiplier, p.negative_shift);
        *to++ = (int8_t)(tw_clamp(scaled, low, high) + p.out_zero);
        a += a_step;
        b += b_step;
    }
}

TW_BINARY_FORMS(tw_prelu_s8, tw_prelu, prelu_run)
