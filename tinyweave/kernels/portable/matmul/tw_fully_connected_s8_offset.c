/* tw_fully_connected_s8_offset.c - int8 dense layer whose weights have a zero point, portable C. */
#include "tw_fully_connected.h"

#include "tw_dot.h"

TW_FORMS(tw_fully_connected_s8_offset, tw_fully_connected_offset,
         tw_whole(in, p->dense.layer.in), tw_whole(out, p->dense.layer.out), p->dense.layer.out,
         tw_fully_connected_over(&p->dense, in, out, range, p->dense.layer.in.c, p->weights_zero, tw_dot_s8, tw_fully_connected_finish_s8))

void tw_fully_connected_s8_offset_rows(const tw_fully_connected_offset *p, tw_view in, void *out, tw_range range, int32_t *sums)
{
    tw_fully_connected_over_rows(&p->dense, in, out, range, sums, p->dense.layer.in.c, p->weights_zero, tw_dot_s8);
}
