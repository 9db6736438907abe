/* tw_sums.h - sums of channels, also over a map whose rows come one after the other. */
#ifndef TW_SUMS_H
#define TW_SUMS_H

#include "tw.h"

/* Adds `count` values of each of four neighbouring channels to their sums, or to those of the first `channels` of them; `step`
 * bytes lead from a value to the next. */
static inline void tw_sums_add_four(int32_t *sums, int32_t channels, const int8_t *from, int32_t step, int32_t count)
{
    if (channels >= 4) {
        int32_t sum0 = sums[0], sum1 = sums[1], sum2 = sums[2], sum3 = sums[3];
        for (; count > 0; --count) {
            sum0 += from[0];
            sum1 += from[1];
            sum2 += from[2];
            sum3 += from[3];
            from += step;
        }
        sums[0] = sum0;
        sums[1] = sum1;
        sums[2] = sum2;
        sums[3] = sum3;
        return;
    }
    for (int32_t channel = 0; channel < channels; ++channel) {
        for (int32_t i = 0; i < count; ++i) {
            sums[channel] += from[channel + i * step];
        }
    }
}

/* Adds every pixel of a range of an int8 map to sums that begin, with row 0, at `first`. */
TW_INLINE void tw_sums_add(int32_t *sums, int32_t channels, const tw_view *in, tw_range range, int32_t first)
{
    for (int32_t channel = 0; range.row_begin == 0 && channel < channels; ++channel) {
        sums[channel] = first;
    }
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *from = (const int8_t *)tw_pixel(in, y, range.col_begin, channels);
        for (int32_t channel = 0; channel < channels; channel += 4) {
            tw_sums_add_four(sums + channel, channels - channel, from + channel, channels, range.col_end - range.col_begin);
        }
    }
}

#endif
