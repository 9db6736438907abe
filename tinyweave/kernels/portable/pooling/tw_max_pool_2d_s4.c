/* tw_max_pool_2d_s4.c - int4 maximum over a window, portable C. */
#include "tw_pool.h"

void tw_max_pool_2d_s4_part(const tw_pool *p, tw_view in, tw_view out, tw_range range)
{
    tw_pool_over(p, in, out, range, 1, -128, tw_max, tw_pool_highest_of);
}

TW_WHOLE_FORM(tw_max_pool_2d_s4, tw_pool, tw_whole_s4(in, p->in), tw_whole_s4(out, p->out), p->out)
