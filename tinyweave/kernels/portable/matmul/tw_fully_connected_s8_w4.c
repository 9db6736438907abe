/* tw_fully_connected_s8_w4.c - dense layer of int8 rows with int4 weights, portable C. */
#include "tw_fully_connected.h"

#include "tw_dot_w4.h"

TW_FORMS(tw_fully_connected_s8_w4, tw_fully_connected, tw_whole(in, p->layer.in), tw_whole(out, p->layer.out), p->layer.out,
         tw_fully_connected_over(p, in, out, range, tw_int4_bytes(p->layer.in.c), 0, tw_dot_w4, tw_fully_connected_finish_s8))

void tw_fully_connected_s8_w4_rows(const tw_fully_connected *p, tw_view in, void *out, tw_range range, int32_t *sums)
{
    tw_fully_connected_over_rows(p, in, out, range, sums, tw_int4_bytes(p->layer.in.c), 0, tw_dot_w4);
}
