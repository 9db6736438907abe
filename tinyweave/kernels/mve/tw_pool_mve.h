/* tw_pool_mve.h - int8 pooling with the Arm MVE extension, sixteen channels at a time. */
#ifndef TW_POOL_MVE_H
#define TW_POOL_MVE_H

#include "tw_pool.h"

/* Computes the output of one pixel, all channels, at `to`; window: the pixels of its window that lie inside the map. */
typedef void tw_pool_pixel(const tw_pool *p, const tw_view *in, const tw_pool_window *window, int8_t *to);

/* Calls `pixel` for each pixel of a range of the output. */
TW_INLINE void tw_pool_each(const tw_pool *p, tw_view in, tw_view out, tw_range range, tw_pool_pixel *pixel)
{
    tw_pool_window window;
    window.pixel = p->in.c;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, window.pixel);
        const int32_t top = y * p->stride.h - p->pad.h;
        const tw_span rows = tw_inside(top, p->kernel.h, 1, p->in.h);
        const int32_t row_offset = tw_offset(&in, top + rows.begin, 0, window.pixel);
        window.rows = rows.end - rows.begin;
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            const int32_t left = x * p->stride.w - p->pad.w, begin = tw_max(left, 0);
            window.cols = tw_min(left + p->kernel.w, p->in.w) - begin;
            window.offset = row_offset + begin * window.pixel;
            pixel(p, &in, &window, to);
            to += window.pixel;
        }
    }
}

/* int8 average over a window. Needs no scratch. */
void tw_average_pool_2d_s8_mve(const tw_pool *p, const void *in, void *out);
void tw_average_pool_2d_s8_mve_part(const tw_pool *p, tw_view in, tw_view out, tw_range range);

/* The same as tw_average_pool_2d_s8_rows. */
void tw_average_pool_2d_s8_mve_rows(const tw_pool *p, tw_view in, void *out, tw_range range, int32_t *sums);

/* int8 maximum over a window. Needs no scratch. */
void tw_max_pool_2d_s8_mve(const tw_pool *p, const void *in, void *out);
void tw_max_pool_2d_s8_mve_part(const tw_pool *p, tw_view in, tw_view out, tw_range range);

#endif
