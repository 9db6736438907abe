/* tw_average_pool_2d_s8.h - int8 average over a window, portable C. */
#ifndef TW_AVERAGE_POOL_2D_S8_H
#define TW_AVERAGE_POOL_2D_S8_H

#include "tw_pool.h"

/* Divides by the number of positions inside the map, rounded half away from zero. Needs no scratch. */
void tw_average_pool_2d_s8(const tw_pool *p, const void *in, void *out);

/* The same for a range of the output, from and to parts of maps. */
void tw_average_pool_2d_s8_part(const tw_pool *p, tw_view in, tw_view out, tw_range range);

/* Where one window covers the whole map: its average over rows as they come, from part of the map. Adds a range of whole rows
 * to sums[c], which row 0 sets up, and writes out with the last row. */
void tw_average_pool_2d_s8_rows(const tw_pool *p, tw_view in, void *out, tw_range range, int32_t *sums);

#endif
