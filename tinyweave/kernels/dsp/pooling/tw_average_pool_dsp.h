/* tw_average_pool_dsp.h - average pooling with the Arm DSP extension. */
#ifndef TW_AVERAGE_POOL_DSP_H
#define TW_AVERAGE_POOL_DSP_H

#include "tw_pool.h"

/* int8 average over a window, four channels at a time. Needs no scratch. */
void tw_average_pool_2d_s8_dsp(const tw_pool *p, const void *in, void *out);
void tw_average_pool_2d_s8_dsp_part(const tw_pool *p, tw_view in, tw_view out, tw_range range);

/* The same as tw_average_pool_2d_s8_rows. */
void tw_average_pool_2d_s8_dsp_rows(const tw_pool *p, tw_view in, void *out, tw_range range, int32_t *sums);

#endif
