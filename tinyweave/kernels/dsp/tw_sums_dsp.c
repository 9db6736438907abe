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
