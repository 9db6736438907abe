/* tw_fully_connected_s8_compact.c - int8 dense layer with little code, portable C. */
#include "tw_fully_connected.h"

static void over(const tw_fully_connected *p, const tw_view *in, const tw_view *out, tw_range range)
{
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            const int8_t *from = (const int8_t *)tw_pixel(in, y, x, p->in.c), *weights = p->weights;
            int8_t *to = (int8_t *)tw_pixel(out, y, x, p->out.c);
            for (int32_t channel = 0; channel < p->out.c; ++channel) {
                int32_t sum = 0;
                for (int32_t i = 0; i < p->in.c; ++i) {
                    sum += (from[i] - p->in_zero) * *weights++;
                }
                to[channel] = tw_fully_connected_rescale(p, channel, sum);
            }
        }
    }
}

TW_FORMS(tw_fully_connected_s8_compact, tw_fully_connected, tw_whole(in, p->in), tw_whole(out, p->out), p->out,
         over(p, &in, &out, range))
