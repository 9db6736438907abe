/* tw_fully_connected.c - what dense layers end with: bias, rescaling, clamp. */
#include "tw_fully_connected.h"

int8_t tw_fully_connected_rescale(const tw_fully_connected *p, int32_t channel, int32_t sum)
{
    const int32_t index = p->layer.per_channel ? channel : 0;
    const int32_t scaled = tw_requantize_once(tw_add_bias(sum, p->bias, channel), p->layer.multiplier[index], p->layer.shift[index]);
    return (int8_t)(tw_clamp(scaled, p->layer.out_min - p->layer.out_zero, p->layer.out_max - p->layer.out_zero) + p->layer.out_zero);
}
