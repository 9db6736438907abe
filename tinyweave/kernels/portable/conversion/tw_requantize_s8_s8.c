/* tw_requantize_s8_s8.c - int8 to int8 of another scale, portable C. */
#include "tw_requantize.h"

void tw_requantize_s8_s8_part(const tw_requantization *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t count = (range.col_end - range.col_begin) * p->shape.c;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *from = (const int8_t *)tw_pixel(&in, y, range.col_begin, p->shape.c);
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, p->shape.c);
        for (int32_t i = 0; i < count; ++i) {
            to[i] = (int8_t)tw_requantize_element(p, from[i]);
        }
    }
}

void tw_requantize_s8_s8(const tw_requantization *p, const void *in, void *out)
{
    tw_requantize_s8_s8_part(p, tw_whole(in, p->shape), tw_whole(out, p->shape), tw_all(p->shape));
}
