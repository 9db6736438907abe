/* tw_max_pool_2d_s8.c - int8 maximum over a window, portable C: the specification of every faster variant. */
#include "tw_pool.h"

TW_FORMS(tw_max_pool_2d_s8, tw_pool, tw_whole(in, p->in), tw_whole(out, p->out), p->out,
         tw_pool_over(p, in, out, range, TW_POOL_S8, -128, tw_max, tw_pool_highest_of))
