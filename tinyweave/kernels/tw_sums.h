/* tw_sums.h - sums over a map whose rows come one after the other. */
#ifndef TW_SUMS_H
#define TW_SUMS_H

#include "tw.h"

static inline void tw_sums_begin(int32_t *sums, int32_t channels, int32_t value)
{
    for (int32_t channel = 0; channel < channels; ++channel) {
        sums[channel] = value;
    }
}

/* Adds every pixel of a range of an int8 map. */
static inline void tw_sums_add(int32_t *sums, int32_t channels, const tw_view *in, tw_range range)
{
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *from = (const int8_t *)tw_pixel(in, y, range.col_begin, channels);
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            for (int32_t channel = 0; channel < channels; ++channel) {
                sums[channel] += *from++;
            }
        }
    }
}

#endif
