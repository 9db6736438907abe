/* tw_prelu_s16.c - int16 leaky relu whose slope is an int8 operand with broadcasting, portable C. */
#include "tw_binary.h"

static int32_t element(const tw_prelu *p, int32_t x, int32_t slope)
{
    const int32_t scaled = x >= 0 ? tw_requantize(x, p->positive_multiplier, p->positive_shift)
                                  : tw_requantize(x * slope, p->negative_multiplier, p->negative_shift);
    return tw_clamp(scaled, -32768, 32767);
}

TW_EACH_S16_FORM(tw_prelu_s16, tw_prelu, int8_t, int16_t, element(p, x, y - p->b_zero))
