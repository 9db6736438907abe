/* tw_fully_connected_s8_w4.c - dense layer of int8 rows with int4 weights, portable C. */
#include "tw_fully_connected.h"

#include "tw_dot_w4.h"

static inline void dot(const tw_fully_connected *p, const int8_t *from, const int8_t *weights, int32_t filters, int32_t *sums)
{
    if (filters == 4) {
        tw_dot4_w4(from, p->in_zero, weights, tw_int4_bytes(p->in.c), 0, p->in.c, sums);
    } else {
        tw_dot1_w4(from, p->in_zero, weights, 0, p->in.c, sums);
    }
}

void tw_fully_connected_s8_w4_part(const tw_fully_connected *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t filter = tw_int4_bytes(p->in.c);
    tw_fully_connected_over(p, in, p->in.c, out, p->out.c, range, filter, dot, tw_fully_connected_finish_s8);
}

TW_WHOLE_FORM(tw_fully_connected_s8_w4, tw_fully_connected, tw_whole(in, p->in), tw_whole(out, p->out), p->out)
