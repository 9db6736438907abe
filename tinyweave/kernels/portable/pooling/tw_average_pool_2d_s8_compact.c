/* tw_average_pool_2d_s8_compact.c - int8 average over a window with little code, portable C. */
#include "tw_pool.h"

static void over(const tw_pool *p, const tw_view *in, const tw_view *out, tw_range range)
{
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            int8_t *to = (int8_t *)tw_pixel(out, y, x, p->in.c);
            for (int32_t channel = 0; channel < p->in.c; ++channel) {
                int32_t sum = 0, count = 0;
                for (int32_t row = 0; row < p->kernel.h; ++row) {
                    const int32_t in_y = y * p->stride.h - p->pad.h + row;
                    for (int32_t col = 0; col < p->kernel.w; ++col) {
                        const int32_t in_x = x * p->stride.w - p->pad.w + col;
                        if (tw_is_in(in_y, p->in.h) && tw_is_in(in_x, p->in.w)) {
                            sum += ((const int8_t *)tw_pixel(in, in_y, in_x, p->in.c))[channel];
                            ++count;
                        }
                    }
                }
                to[channel] = tw_pool_average(p, sum - p->away_from * count, count);
            }
        }
    }
}

TW_POOL_FORMS(tw_average_pool_2d_s8_compact, over(p, &in, &out, range))
