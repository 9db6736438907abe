/* tw_conv_2d_s16_dsp.c - convolution of int16 maps with the Arm DSP extension. */
#include "tw_conv_s16.h"

#include "tw_conv_s16_over.h"
#include "tw_dsp.h"
#include "tw_multiply_s16_dsp.h"

/* A tw_put_s16. */
static inline void put(const tw_conv_s16_word *p, int32_t channel, tw_sums_s16 sums, int32_t filters, int16_t *to)
{
    const int32_t low = p->base.out_min, high = p->base.out_max;
    for (int32_t i = 0; i < filters; ++i) {
        const int32_t scaled = tw_smmulr(sums.of[i] + p->bias[channel + i], p->factor[channel + i]);
        to[i] = (int16_t)tw_clamp(scaled, low, high);
    }
}

void tw_conv_2d_s16_dsp(const tw_conv_s16_word *p, const void *in, void *out)
{
    tw_conv_2d_s16_over(p, (const int16_t *)in, (int16_t *)out, tw_multiply_s16_dsp, put);
}
