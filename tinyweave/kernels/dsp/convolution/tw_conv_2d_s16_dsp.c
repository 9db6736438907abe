/* tw_conv_2d_s16_dsp.c - convolution of int16 maps with the Arm DSP extension. */
#include "tw_conv_s16.h"

#include "tw_conv_s16_over.h"
#include "tw_dsp.h"
#include "tw_multiply_s16_dsp.h"

/* A tw_put_s16. */
static inline void put(const tw_conv_s16_word *p, int32_t channel, tw_sums_s16 sums, int32_t filters, int16_t *to)
{
    const int32_t low = p->base.out_min, high = p->base.out_max;
    const int32_t *const bias = p->bias + channel, *const factor = p->factor + channel;
    for (int32_t i = 0; i < filters; ++i) {
        to[i] = (int16_t)tw_clamp(tw_smmulr(sums.of[i] + bias[i], factor[i]), low, high);
    }
}

static inline void pixel(const tw_conv_s16_word *p, tw_runs_s16 runs, int16_t *to)
{
    tw_conv_2d_s16_pixel(p, runs, to, tw_multiply_s16_dsp, put);
}

void tw_conv_2d_s16_dsp(const tw_conv_s16_word *p, const void *in, void *out)
{
    tw_conv_2d_s16_each(p, (const int16_t *)in, (int16_t *)out, p->base.in.c / p->base.groups, pixel);
}
