/* tw_requantize_s4_s8.c - int4 to int8 of another scale, portable C. */
#include "tw_requantize.h"

#include "tw_int4.h"

void tw_requantize_s4_s8_part(const tw_requantization *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t channels = p->shape.c, bytes = tw_int4_bytes(channels);
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *from = (const int8_t *)tw_pixel(&in, y, range.col_begin, bytes);
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, channels);
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            for (int32_t i = 0; i < channels; i += 2) {
                const int8_t pair = from[i >> 1];
                to[i] = (int8_t)tw_requantize_element(p, tw_low(pair));
                if (i + 1 < channels) {
                    to[i + 1] = (int8_t)tw_requantize_element(p, tw_high(pair));
                }
            }
            from += bytes;
            to += channels;
        }
    }
}

TW_WHOLE_FORM(tw_requantize_s4_s8, tw_requantization, tw_whole_s4(in, p->shape), tw_whole(out, p->shape), p->shape)
