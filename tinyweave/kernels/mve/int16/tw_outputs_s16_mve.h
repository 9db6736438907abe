/* tw_outputs_s16_mve.h - the outputs of convolutions of int16 maps with the Arm MVE extension. */
#ifndef TW_OUTPUTS_S16_MVE_H
#define TW_OUTPUTS_S16_MVE_H

#include "tw_conv_s16.h"
#include "tw_mve.h"

#if TW_HAS_MVE

/* Writes the outputs of four channels from `channel` on, of which `sum` has the products and biases; some: those that exist. */
static inline void tw_outputs_s16_mve(const tw_conv_s16_word *p, int32_t channel, int32x4_t sum, mve_pred16_t some, int16_t *to)
{
    const int32x4_t scaled = vrmulhq_s32(sum, vldrwq_z_s32(p->factor + channel, some));
    const int32x4_t low = vdupq_n_s32(p->base.out_min), high = vdupq_n_s32(p->base.out_max);
    vstrhq_p_s32(to, vminq_s32(vmaxq_s32(scaled, low), high), some);
}

#else

static inline int16_t tw_output_s16_mve(const tw_conv_s16_word *p, int32_t channel, int32_t sum)
{
    const int64_t product = (int64_t)sum * p->factor[channel];
    return (int16_t)tw_clamp((int32_t)((product + ((int64_t)1 << 31)) >> 32), p->base.out_min, p->base.out_max);
}

#endif

#endif
