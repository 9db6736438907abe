/* tw_conv_2d_s16_mve.c - convolution of int16 maps with the Arm MVE extension. VRMULH rounds as SMMULR. */
#include "tw_conv_s16.h"

#include "tw_conv_s16_over.h"
#include "tw_multiply_s16_mve.h"

/* A tw_put_s16. */
static inline void put(const tw_conv_s16_word *p, int32_t channel, tw_sums_s16 sums, int32_t filters, int16_t *to)
{
#if TW_HAS_MVE
    const mve_pred16_t some = vctp32q((uint32_t)filters);
    const int32x4_t sum = tw_mve_lanes(sums.of[0], sums.of[1], sums.of[2], sums.of[3]);
    const int32x4_t biased = vaddq_s32(sum, vldrwq_z_s32(p->bias + channel, some));
    const int32x4_t scaled = vrmulhq_s32(biased, vldrwq_z_s32(p->factor + channel, some));
    const int32x4_t low = vdupq_n_s32(p->base.out_min), high = vdupq_n_s32(p->base.out_max);
    vstrhq_p_s32(to, vminq_s32(vmaxq_s32(scaled, low), high), some);
#else
    for (int32_t i = 0; i < filters; ++i) {
        const int64_t product = (int64_t)(sums.of[i] + p->bias[channel + i]) * p->factor[channel + i];
        to[i] = (int16_t)tw_clamp((int32_t)((product + ((int64_t)1 << 31)) >> 32), p->base.out_min, p->base.out_max);
    }
#endif
}

void tw_conv_2d_s16_mve(const tw_conv_s16_word *p, const void *in, void *out)
{
    tw_conv_2d_s16_over(p, (const int16_t *)in, (int16_t *)out, tw_multiply_s16_mve, put);
}
