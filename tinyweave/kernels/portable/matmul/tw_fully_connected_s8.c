/* tw_fully_connected_s8.c - int8 dense layer, portable C: the specification of every faster variant. */
#include "tw_fully_connected.h"

#include "tw_dot.h"

static inline void dot(const tw_fully_connected *p, const int8_t *from, const int8_t *weights, int32_t filters, int32_t *sums)
{
    if (filters == 4) {
        tw_dot4(from, p->in_zero, weights, p->in.c, p->in.c, sums);
    } else {
        tw_dot1(from, p->in_zero, weights, p->in.c, sums);
    }
}

void tw_fully_connected_s8_part(const tw_fully_connected *p, tw_view in, tw_view out, tw_range range)
{
    tw_fully_connected_over(p, in, p->in.c, out, p->out.c, range, p->in.c, dot, tw_fully_connected_finish_s8);
}

TW_WHOLE_FORM(tw_fully_connected_s8, tw_fully_connected, tw_whole(in, p->in), tw_whole(out, p->out), p->out)
