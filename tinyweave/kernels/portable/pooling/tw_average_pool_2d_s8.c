/* tw_average_pool_2d_s8.c - int8 average over a window, portable C: the specification of every faster variant. */
#include "tw_pool.h"

TW_FORMS(tw_average_pool_2d_s8, tw_pool, tw_whole(in, p->in), tw_whole(out, p->out), p->out,
         tw_pool_over(p, in, out, range, TW_POOL_S8, 0, tw_plus, tw_pool_average_of))

void tw_average_pool_2d_s8_rows(const tw_pool *p, tw_view in, void *out, tw_range range, int32_t *sums)
{
    tw_pool_average_rows(p, in, out, range, sums);
}
