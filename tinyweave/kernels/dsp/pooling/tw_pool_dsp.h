/* tw_pool_dsp.h - pooling with the Arm DSP extension. No kernel needs scratch. */
#ifndef TW_POOL_DSP_H
#define TW_POOL_DSP_H

#include "tw_pool.h"

/* int8 average over a window, four channels at a time. */
TW_DECLARE_ROW_FORMS(tw_average_pool_2d_s8_dsp, tw_pool);

/* int8 maximum over a window, eight channels at a time; at least four channels. */
TW_DECLARE_FORMS(tw_max_pool_2d_s8_dsp, tw_pool);

/* int16 maximum over a window; at least two channels. */
void tw_max_pool_2d_s16_dsp(const tw_pool *p, const void *in, void *out);

#endif
