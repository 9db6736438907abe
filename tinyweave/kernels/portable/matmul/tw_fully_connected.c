/* tw_fully_connected.c - what dense layers end with: bias, rescaling, clamp. */
#include "tw_fully_connected.h"

int8_t tw_fully_connected_rescale(const tw_fully_connected *p, int32_t channel, int32_t sum)
{
    const int32_t index = p->per_channel ? channel : 0;
    const int32_t scaled = tw_requantize_once(tw_add_bias(sum, p->bias, channel), p->multiplier[index], p->shift[index]);
    return (int8_t)(tw_clamp(scaled, p->out_min - p->out_zero, p->out_max - p->out_zero) + p->out_zero);
}
