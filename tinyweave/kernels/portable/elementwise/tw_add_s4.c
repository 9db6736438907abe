/* tw_add_s4.c - int4 sum or difference with broadcasting, portable C. */
#include "tw_binary.h"

#include "tw_int4.h"

void tw_add_s4_part(const tw_add *p, tw_view a, tw_view b, tw_view out, tw_range range)
{
    const int32_t a_step = tw_broadcast_steps(p->a, p->out).channel, b_step = tw_broadcast_steps(p->b, p->out).channel;
    const int32_t a_pixel = tw_int4_bytes(p->a.c), b_pixel = tw_int4_bytes(p->b.c), channels = p->out.c;
    for (int32_t row = range.row_begin; row < range.row_end; ++row) {
        int8_t *to = (int8_t *)tw_pixel(&out, row, range.col_begin, tw_int4_bytes(channels));
        for (int32_t col = range.col_begin; col < range.col_end; ++col) {
            const int8_t *from_a = tw_broadcast_from(&a, p->a, p->out, row, col, a_pixel);
            const int8_t *from_b = tw_broadcast_from(&b, p->b, p->out, row, col, b_pixel);
            for (int32_t i = 0; i < channels; i += 2) {
                const int32_t low = tw_add_element(p, tw_int4(from_a, i * a_step), tw_int4(from_b, i * b_step));
                int32_t high = 0;
                if (i + 1 < channels) {
                    high = tw_add_element(p, tw_int4(from_a, (i + 1) * a_step), tw_int4(from_b, (i + 1) * b_step));
                }
                *to++ = tw_int4_pair(low, high);
            }
        }
    }
}

TW_WHOLE_BROADCAST(tw_add_s4, tw_add, tw_whole_s4, p)
