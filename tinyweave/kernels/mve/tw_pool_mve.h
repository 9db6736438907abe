/* tw_pool_mve.h - pooling with the Arm MVE extension, a vector of channels at a time. */
#ifndef TW_POOL_MVE_H
#define TW_POOL_MVE_H

#include "tw_pool.h"

/* int8 average over a window. Needs no scratch. */
TW_DECLARE_ROW_FORMS(tw_average_pool_2d_s8_mve, tw_pool);

/* int8 maximum over a window. Needs no scratch. */
TW_DECLARE_FORMS(tw_max_pool_2d_s8_mve, tw_pool);

/* int16 average over a window of at most 255 pixels, and maximum. Need no scratch. */
void tw_average_pool_2d_s16_mve(const tw_pool *p, const void *in, void *out);
void tw_max_pool_2d_s16_mve(const tw_pool *p, const void *in, void *out);

#endif
