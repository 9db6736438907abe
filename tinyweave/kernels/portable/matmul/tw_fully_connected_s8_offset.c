/* tw_fully_connected_s8_offset.c - int8 dense layer whose weights have a zero point, portable C. */
#include "tw_fully_connected.h"

#include "tw_dot.h"

void tw_fully_connected_s8_offset_part(const tw_fully_connected_offset *p, tw_view in, tw_view out, tw_range range)
{
    tw_fully_connected_over(&p->dense, in, out, range, 8, 8, p->weights_zero, tw_dot_s8, tw_fully_connected_finish_s8);
}

TW_WHOLE_FORM(tw_fully_connected_s8_offset, tw_fully_connected_offset,
              tw_whole(in, p->dense.in), tw_whole(out, p->dense.out), p->dense.out)
