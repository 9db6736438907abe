/* tw_fully_connected_s8.c - int8 dense layer, portable C: the specification of every faster variant. */
#include "tw_fully_connected.h"

#include "tw_dot.h"

TW_FORMS(tw_fully_connected_s8, tw_fully_connected, tw_whole(in, p->layer.in), tw_whole(out, p->layer.out), p->layer.out,
         tw_fully_connected_over(p, in, out, range, p->layer.in.c, 0, tw_dot_s8, tw_fully_connected_finish_s8))

void tw_fully_connected_s8_rows(const tw_fully_connected *p, tw_view in, void *out, tw_range range, int32_t *sums)
{
    tw_fully_connected_over_rows(p, in, out, range, sums, p->layer.in.c, 0, tw_dot_s8);
}
