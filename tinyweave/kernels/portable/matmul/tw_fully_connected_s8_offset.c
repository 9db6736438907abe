/* tw_fully_connected_s8_offset.c - int8 dense layer whose weights have a zero point, portable C. */
#include "tw_fully_connected.h"

void tw_fully_connected_s8_offset_part(const tw_fully_connected_offset *params, tw_view in, tw_view out, tw_range range)
{
    const tw_fully_connected *p = &params->dense;
    const int32_t depth = p->in.c, zero = params->weights_zero;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *from = (const int8_t *)tw_pixel(&in, y, range.col_begin, depth);
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, p->out.c);
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            const int8_t *weights = p->weights;
            for (int32_t channel = 0; channel < p->out.c; ++channel) {
                int32_t sum = 0;
                for (int32_t i = 0; i < depth; ++i) {
                    sum += (from[i] - p->in_zero) * (weights[i] - zero);
                }
                weights += depth;
                *to++ = tw_fully_connected_rescale(p, channel, sum);
            }
            from += depth;
        }
    }
}

TW_WHOLE_FORM(tw_fully_connected_s8_offset, tw_fully_connected_offset,
              tw_whole(in, p->dense.in), tw_whole(out, p->dense.out), p->dense.out)
