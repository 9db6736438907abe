/* tw_requantize_s8_s4.c - int8 to int4 of another scale, portable C. */
#include "tw_requantize.h"

#include "tw_int4.h"

void tw_requantize_s8_s4_part(const tw_requantization *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t channels = p->shape.c, bytes = tw_int4_bytes(channels);
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *from = (const int8_t *)tw_pixel(&in, y, range.col_begin, channels);
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, bytes);
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            for (int32_t i = 0; i < channels; i += 2) {
                const int32_t low = tw_requantize_element(p, from[i]);
                const int32_t high = i + 1 < channels ? tw_requantize_element(p, from[i + 1]) : 0;
                to[i >> 1] = tw_int4_pair(low, high);
            }
            from += channels;
            to += bytes;
        }
    }
}

TW_WHOLE_FORM(tw_requantize_s8_s4, tw_requantization, tw_whole(in, p->shape), tw_whole_s4(out, p->shape), p->shape)
