/* tw_fully_connected_s8_compact.c - int8 dense layer with little code, portable C. */
#include "tw_fully_connected.h"

/* The sum of products of `count` inputs with the weights of a channel from weight `first` on. */
static int32_t product(const tw_fully_connected *p, const int8_t *from, int32_t channel, int32_t first, int32_t count)
{
    const int8_t *const weights = p->weights + channel * p->layer.in.c + first;
    int32_t sum = 0;
    for (int32_t i = 0; i < count; ++i) {
        sum += (from[i] - p->layer.in_zero) * weights[i];
    }
    return sum;
}

static void over(const tw_fully_connected *p, const tw_view *in, const tw_view *out, tw_range range)
{
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            const int8_t *from = (const int8_t *)tw_pixel(in, y, x, p->layer.in.c);
            int8_t *to = (int8_t *)tw_pixel(out, y, x, p->layer.out.c);
            for (int32_t channel = 0; channel < p->layer.out.c; ++channel) {
                const int32_t sum = product(p, from, channel, 0, p->layer.in.c);
                tw_fully_connected_finish_s8(&p->layer, p->bias, channel, &sum, 1, to);
            }
        }
    }
}

TW_FORMS(tw_fully_connected_s8_compact, tw_fully_connected, tw_whole(in, p->layer.in), tw_whole(out, p->layer.out), p->layer.out,
         over(p, &in, &out, range))

void tw_fully_connected_s8_compact_rows(const tw_fully_connected *p, tw_view in, void *out, tw_range range, int32_t *sums)
{
    const int32_t row = in.row_stride;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *const from = (const int8_t *)tw_pixel(&in, y, 0, 0);
        for (int32_t channel = 0; channel < p->layer.out.c; ++channel) {
            sums[channel] = product(p, from, channel, y * row, row) + (y == 0 ? 0 : sums[channel]);
        }
    }
    tw_fully_connected_end_rows(p, range, row, sums, out);
}
