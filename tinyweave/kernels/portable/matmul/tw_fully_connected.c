/* tw_fully_connected.c - what dense layers end with: bias, rescaling, clamp. */
#include "tw_fully_connected.h"

void tw_fully_connected_finish_s8(const tw_dense *p, const int32_t *bias, int32_t channel, const int32_t *sums, int32_t count,
                                  int8_t *pixel)
{
    const int32_t zero = p->out_zero, low = p->out_min - zero, high = p->out_max - zero, step = p->per_channel ? 1 : 0;
    const int64_t *multiplier = p->multiplier + step * channel;
    const int8_t *shift = p->shift + step * channel;
    for (const int8_t *const end = (pixel += channel) + count; pixel != end; multiplier += step, shift += step) {
        const int32_t scaled = tw_requantize_once(tw_add_bias(*sums++, bias, channel++), *multiplier, *shift);
        *pixel++ = (int8_t)(tw_clamp(scaled, low, high) + zero);
    }
}
