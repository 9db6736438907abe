/* tw_conv_2d_s16_mve.c - convolution of int16 maps with the Arm MVE extension. */
#include "tw_conv_s16.h"

#include "tw_conv_s16_over.h"
#include "tw_multiply_s16_mve.h"
#include "tw_outputs_s16_mve.h"

/* A tw_put_s16. */
static inline void put(const tw_conv_s16_word *p, int32_t channel, tw_sums_s16 sums, int32_t filters, int16_t *to)
{
#if TW_HAS_MVE
    const mve_pred16_t some = vctp32q((uint32_t)filters);
    const int32x4_t sum = tw_mve_lanes(sums.of[0], sums.of[1], sums.of[2], sums.of[3]);
    tw_outputs_s16_mve(p, channel, vaddq_s32(sum, vldrwq_z_s32(p->bias + channel, some)), some, to);
#else
    for (int32_t i = 0; i < filters; ++i) {
        to[i] = tw_output_s16_mve(p, channel + i, sums.of[i] + p->bias[channel + i]);
    }
#endif
}

static inline void pixel(const tw_conv_s16_word *p, tw_runs_s16 runs, int16_t *to)
{
    tw_conv_2d_s16_pixel(p, runs, to, tw_multiply_s16_mve, put);
}

void tw_conv_2d_s16_mve(const tw_conv_s16_word *p, const void *in, void *out)
{
    tw_conv_2d_s16_each(p, (const int16_t *)in, (int16_t *)out, p->base.in.c / p->base.groups, pixel);
}
