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

void tw_leaky_relu_s16_part(const tw_leaky_relu *p, tw_view in, tw_view out, tw_range range)
{
    TW_EACH_ELEMENT(p, in, int16_t, out, int16_t, range, element(p, from[i]));
}

TW_WHOLE_FORM(tw_leaky_relu_s16, tw_leaky_relu, tw_whole_of(in, p->shape, 2), tw_whole_of(out, p->shape, 2), p->shape)
