/* tw_average_pool_2d_s16.c - int16 average over a window, portable C. */
#include "tw_pool.h"

void tw_average_pool_2d_s16(const tw_pool *p, const void *in, void *out)
{
    tw_pool_over(p, tw_whole_of(in, p->in, 2), tw_whole_of(out, p->out, 2), tw_all(p->out), TW_POOL_S16, 0, tw_plus,
                 tw_pool_average_s16_of);
}
