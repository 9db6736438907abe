/* tw_leaky_relu_s16.c - int16 with one slope from the zero point on and another below it, portable C. */
#include "tw_activation.h"

static inline int32_t element(const tw_leaky_relu *p, int32_t x)
{
    const int32_t is_above = x >= p->in_zero, multiplier = is_above ? p->positive_multiplier : p->negative_multiplier;
    const int32_t shift = is_above ? p->positive_shift : p->negative_shift;
    const int32_t size = tw_requantize(x - p->in_zero, multiplier < 0 ? -multiplier : multiplier, shift);
    const int32_t scaled = multiplier < 0 ? -size : size; /* as LiteRT rounds slopes below 0 */
    return tw_clamp(scaled, -32768 - p->out_zero, 32767 - p->out_zero) + p->out_zero;
}

TW_ELEMENTWISE_FORMS(tw_leaky_relu_s16, tw_leaky_relu, int16_t, int16_t, element(p, from[i]))
