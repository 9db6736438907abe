/* tw_leaky_relu_s16.c - int16 with one slope from the zero point on and another below it, portable C. */
#include "tw_activation.h"

static inline int32_t element(const tw_leaky_relu *p, int32_t x)
{
    const int32_t scaled = x >= p->in_zero ? tw_requantize(x - p->in_zero, p->positive_multiplier, p->positive_shift)
                                           : tw_requantize(x - p->in_zero, p->negative_multiplier, p->negative_shift);
    return tw_clamp(scaled, -32768 - p->out_zero, 32767 - p->out_zero) + p->out_zero;
}

TW_ELEMENTWISE_FORMS(tw_leaky_relu_s16, tw_leaky_relu, int16_t, int16_t, element(p, from[i]))
