/* tw_max_pool_2d_s4.c - int4 maximum over a window, portable C. */
#include "tw_pool.h"

TW_FORMS(tw_max_pool_2d_s4, tw_pool, tw_whole_s4(in, p->in), tw_whole_s4(out, p->out), p->out,
         tw_pool_over(p, in, out, range, TW_POOL_S4, -128, tw_max, tw_pool_highest_of))
