/* tw_max_pool_2d_s8.h - int8 maximum over a window, portable C. */
#ifndef TW_MAX_POOL_2D_S8_H
#define TW_MAX_POOL_2D_S8_H

#include "tw_pool.h"

/* Needs no scratch. */
void tw_max_pool_2d_s8(const tw_pool *p, const void *in, void *out);

/* The same for a range of the output, from and to parts of maps. */
void tw_max_pool_2d_s8_part(const tw_pool *p, tw_view in, tw_view out, tw_range range);

#endif
