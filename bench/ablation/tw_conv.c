/* tw_conv.c - what convolutions end with, rescaled in a few instructions of the Arm DSP extension: a step of bench/ablation.py,
 * not of tinyweave. Gives the portable bytes where all shifts are from -31 to -2, or the multiplier is 0, and no sum reaches
 * 2^30, which the benchmark checks.
 */
#include "tw_conv.h"

#include "tw_dsp.h"

void tw_conv_finish(const tw_conv *p, int32_t channel, const int32_t *sums, int32_t count, int8_t *to)
{
    const int32_t zero = p->out_zero, low = p->out_min, high = p->out_max;
    const int32_t *bias = p->bias, *multiplier = p->multiplier + channel;
    const int8_t *shift = p->shift + channel;
    for (int32_t i = 0; i < count; ++i) {
        const int32_t doubled = tw_signed(2u * (uint32_t)tw_add_bias(sums[i], bias, channel + i));
        const int32_t power = tw_signed(1u << ((32 + shift[i]) & 31));
        to[i] = (int8_t)tw_clamp(tw_rescale_doubled(doubled, multiplier[i], power, zero, -1), low, high);
    }
}
