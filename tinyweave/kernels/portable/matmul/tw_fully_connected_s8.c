/* tw_fully_connected_s8.c - int8 dense layer, portable C: the specification of every faster variant. */
#include "tw_fully_connected.h"

#include "tw_dot.h"

void tw_fully_connected_s8_part(const tw_fully_connected *p, tw_view in, tw_view out, tw_range range)
{
    tw_fully_connected_over(p, in, out, range, 8, 8, 0, tw_dot_s8, tw_fully_connected_finish_s8);
}

TW_WHOLE_FORM(tw_fully_connected_s8, tw_fully_connected, tw_whole(in, p->in), tw_whole(out, p->out), p->out)
