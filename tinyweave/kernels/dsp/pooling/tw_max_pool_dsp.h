/* tw_max_pool_dsp.h - maximum pooling with the Arm DSP extension. */
#ifndef TW_MAX_POOL_DSP_H
#define TW_MAX_POOL_DSP_H

#include "tw_pool.h"

/* int8 maximum over a window, eight channels at a time; at least four channels. Needs no scratch. */
void tw_max_pool_2d_s8_dsp(const tw_pool *p, const void *in, void *out);
void tw_max_pool_2d_s8_dsp_part(const tw_pool *p, tw_view in, tw_view out, tw_range range);

/* int16 maximum over a window; at least two channels. Needs no scratch. */
void tw_max_pool_2d_s16_dsp(const tw_pool *p, const void *in, void *out);

#endif
