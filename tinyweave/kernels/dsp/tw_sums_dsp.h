/* tw_sums_dsp.h - sums of four neighbouring channels over pixels, with the Arm DSP extension.
 *
 * SXTAB16 adds two of four bytes to two lanes of 16 bits. Four pixels of four channels take 16 instructions: four loads, eight
 * SXTAB16, two steps, two of the loop. */
#ifndef TW_SUMS_DSP_H
#define TW_SUMS_DSP_H

#include "tw_dsp.h"

#define TW_SUMS_MOST 255 /* int8 values whose sum a lane holds */

/* Rows and columns of pixels of `step` bytes. */
typedef struct { int32_t step, rows, cols; } tw_sums_window;

/* The sums of channels 0 and 2, and of channels 1 and 3, as lanes. */
typedef struct { uint32_t even, odd; } tw_sums_lanes;

/* A window of whole rows that follow each other becomes one row; offset: of the first pixel. */
static inline tw_sums_window tw_sums_window_of(const tw_view *in, int32_t offset, int32_t step, int32_t rows, int32_t cols)
{
    const int one = in->row_stride == cols * step && offset + (rows - 1) * in->row_stride < in->ring_height * in->row_stride;
    const tw_sums_window window = {step, one ? 1 : rows, one ? rows * cols : cols};
    return window;
}

/* Adds `count` pixels from `from` on. */
TW_INLINE tw_sums_lanes tw_sums_add_pixels(tw_sums_lanes sums, const int8_t *from, int32_t step, int32_t count)
{
    for (int32_t fours = count >> 2; fours > 0; --fours) {
        const uint32_t first = tw_word(from), second = tw_word(from + step);
        from += 2 * step;
        const uint32_t third = tw_word(from), fourth = tw_word(from + step);
        from += 2 * step;
        sums.even = tw_sxtab16(tw_sxtab16(tw_sxtab16(tw_sxtab16(sums.even, first), second), third), fourth);
        sums.odd = tw_sxtab16_odd(tw_sxtab16_odd(tw_sxtab16_odd(tw_sxtab16_odd(sums.odd, first), second), third), fourth);
    }
    for (int32_t rest = count & 3; rest > 0; --rest) {
        const uint32_t word = tw_word(from);
        sums.even = tw_sxtab16(sums.even, word);
        sums.odd = tw_sxtab16_odd(sums.odd, word);
        from += step;
    }
    return sums;
}

/* Adds the lanes to the sums of four channels. */
static inline void tw_sums_add_lanes(int32_t *sums, tw_sums_lanes lanes)
{
    sums[0] += tw_lane(lanes.even, 0);
    sums[1] += tw_lane(lanes.odd, 0);
    sums[2] += tw_lane(lanes.even, 1);
    sums[3] += tw_lane(lanes.odd, 1);
}

/* The sums of four channels of a window of at most TW_SUMS_MOST pixels; offset: of the first pixel's first of these channels. */
TW_INLINE tw_sums_lanes tw_sums_of_window(const tw_view *in, int32_t offset, const tw_sums_window *window)
{
    tw_sums_lanes sums = {0, 0};
    for (int32_t row = window->rows;;) {
        sums = tw_sums_add_pixels(sums, (const int8_t *)in->data + offset, window->step, window->cols);
        if (--row <= 0) {
            return sums;
        }
        offset = tw_down(offset, in->row_stride, in->ring_height * in->row_stride);
    }
}

/* Adds the sums of four channels of a window of any number of pixels. */
void tw_sums_add_window(int32_t *sums, const tw_view *in, int32_t offset, const tw_sums_window *window);

/* Adds every pixel of a range of a map to the sums of its channels. */
void tw_sums_add_range(int32_t *sums, int32_t channels, const tw_view *in, tw_range range);

#endif
