/* tw_conv.c - what every int8 convolution ends with: bias, rescaling, clamp. */
#include "tw_conv.h"

void tw_conv_finish(const tw_conv *p, int32_t channel, const int32_t *sums, int32_t count, int8_t *to)
{
    /* locals, since a store through `to` might change what p points to */
    const int32_t zero = p->shape.out_zero, low = p->shape.out_min - zero, high = p->shape.out_max - zero;
    const int32_t *bias = p->bias, *multiplier = p->multiplier;
    const int8_t *shift = p->shift;
    for (int32_t i = 0; i < count; ++i) {
        const int32_t sum = tw_add_bias(sums[i], bias, channel + i);
        const int32_t scaled = tw_requantize(sum, multiplier[channel + i], shift[channel + i]);
        to[i] = (int8_t)(tw_clamp(scaled, low, high) + zero);
    }
}
