/* tw_average_pool_2d_s8.c - int8 average over a window, portable C: the specification of every faster variant. */
#include "tw_average_pool_2d_s8.h"

#include "tw_sums.h"

/* sum: less away_from for each of the `count` elements. */
static int8_t finish(const tw_pool *p, int32_t sum, int32_t count)
{
    const int32_t mean = (sum + (sum > 0 ? count / 2 : -(count / 2))) / count;
    return (int8_t)tw_clamp(mean + p->away_from, p->out_min, p->out_max);
}

void tw_average_pool_2d_s8_part(const tw_pool *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t ring = in.ring_height * in.row_stride;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, p->out.c);
        const int32_t top = y * p->stride.h - p->pad.h;
        const tw_span rows = tw_inside(top, p->kernel.h, 1, p->in.h);
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            const int32_t left = x * p->stride.w - p->pad.w;
            const tw_span cols = tw_inside(left, p->kernel.w, 1, p->in.w);
            const int32_t count = (rows.end - rows.begin) * (cols.end - cols.begin);
            const int32_t first = tw_offset(&in, top + rows.begin, left + cols.begin, p->in.c);
            for (int32_t channel = 0; channel < p->in.c; ++channel) {
                int32_t sum = -p->away_from * count;
                int32_t offset = first + channel;
                for (int32_t ky = rows.begin; ky < rows.end; ++ky) {
                    const int8_t *from = (const int8_t *)in.data + offset;
                    for (int32_t kx = cols.begin; kx < cols.end; ++kx) {
                        sum += *from;
                        from += p->in.c;
                    }
                    offset = tw_down(offset, in.row_stride, ring);
                }
                *to++ = finish(p, sum, count);
            }
        }
    }
}

void tw_average_pool_2d_s8(const tw_pool *p, const void *in, void *out)
{
    tw_average_pool_2d_s8_part(p, tw_whole(in, p->in), tw_whole(out, p->out), tw_all(p->out));
}

void tw_average_pool_2d_s8_rows(const tw_pool *p, tw_view in, void *out, tw_range range, int32_t *sums)
{
    const int32_t count = p->in.h * p->in.w;
    if (range.row_begin == 0) {
        tw_sums_begin(sums, p->in.c, -p->away_from * count);
    }
    tw_sums_add(sums, p->in.c, &in, range);
    if (range.row_end == p->in.h) {
        for (int32_t channel = 0; channel < p->in.c; ++channel) {
            ((int8_t *)out)[channel] = finish(p, sums[channel], count);
        }
    }
}
