/* tw_softmax_s8.c - int8 softmax, portable C: the specification of every faster variant. */
#include "tw_softmax.h"

static void softmax(const tw_softmax *p, const int8_t *from, int8_t *to)
{
    const tw_softmax_pixel pixel = tw_softmax_sum(p, from);
    for (int32_t i = 0; i < p->shape.c; ++i) {
        to[i] = (int8_t)(tw_softmax_element(p, &pixel, from[i], 8) - 128);
    }
}

void tw_softmax_s8_part(const tw_softmax *p, tw_view in, tw_view out, tw_range range)
{
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *from = (const int8_t *)tw_pixel(&in, y, range.col_begin, p->shape.c);
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, p->shape.c);
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            softmax(p, from, to);
            from += p->shape.c;
            to += p->shape.c;
        }
    }
}

TW_WHOLE_FORM(tw_softmax_s8, tw_softmax, tw_whole(in, p->shape), tw_whole(out, p->shape), p->shape)
