/* tw_sums_dsp.c - sums of four neighbouring channels over any number of pixels, with the Arm DSP extension. */
#include "tw_sums_dsp.h"

void tw_sums_add_window(int32_t *sums, const tw_view *in, int32_t offset, const tw_sums_window *window)
{
    for (int32_t row = 0; row < window->rows; ++row) {
        const int8_t *from = (const int8_t *)in->data + offset;
        for (int32_t left = window->cols; left > 0; left -= TW_SUMS_MOST) {
            tw_sums_lanes lanes = {0, 0};
            lanes = tw_sums_add_pixels(lanes, from, window->step, tw_min(left, TW_SUMS_MOST));
            tw_sums_add_lanes(sums, lanes);
            from += TW_SUMS_MOST * window->step;
        }
        offset = tw_down(offset, in->row_stride, in->ring_height * in->row_stride);
    }
}

void tw_sums_add_range(int32_t *sums, int32_t channels, const tw_view *in, tw_range range)
{
    for (int32_t row = range.row_begin; row < range.row_end; ++row) {
        for (int32_t col = range.col_begin, count; col < range.col_end; col += count) {
            const int8_t *from = (const int8_t *)tw_pixel(in, row, col, channels);
            int32_t *sum = sums;
            count = tw_min(range.col_end - col, TW_SUMS_MOST);
            for (; sum + 4 <= sums + channels; sum += 4) {
                const tw_sums_lanes none = {0, 0}, lanes = tw_sums_add_pixels(none, from, channels, count);
                tw_sums_add_lanes(sum, lanes);
                from += 4;
            }
            for (; sum < sums + channels; ++sum) {
                for (int32_t i = 0; i < count; ++i) {
                    *sum += from[i * channels];
                }
                ++from;
            }
        }
    }
}
