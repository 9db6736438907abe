/* tw_fully_connected.c - what dense layers end with: bias, rescaling, clamp. */
#include "tw_fully_connected.h"

void tw_fully_connected_finish_s8(const tw_dense *p, const int32_t *bias, int32_t channel, const int32_t *sums, int32_t count,
                                  int8_t *pixel)
{
    const int32_t zero = p->out_zero, low = p->out_min - zero, high = p->out_max - zero, step = p->per_channel, first = step * channel;
    const int64_t *multiplier = p->multiplier + first;
    const int8_t *shift = p->shift + first;
    bias += bias ? channel : 0;
    for (const int8_t *const end = (pixel += channel) + count; pixel != end; multiplier += step, shift += step) {
        const int32_t sum = tw_add_bias(*sums++, bias, 0);
        bias += bias ? 1 : 0;
        *pixel++ = (int8_t)(tw_clamp(tw_requantize_once(sum, *multiplier, *shift), low, high) + zero);
    }
}
