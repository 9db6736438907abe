/* tw_average_pool_2d_s4.h - int4 average over a window, portable C. */
#ifndef TW_AVERAGE_POOL_2D_S4_H
#define TW_AVERAGE_POOL_2D_S4_H

#include "tw_pool.h"

/* Needs no scratch. */
void tw_average_pool_2d_s4(const tw_pool *p, const void *in, void *out);

/* The same for a range of the output, from and to parts of maps. */
void tw_average_pool_2d_s4_part(const tw_pool *p, tw_view in, tw_view out, tw_range range);

#endif
