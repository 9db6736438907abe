/* tw_max_pool_2d_s16.c - int16 maximum over a window, portable C. */
#include "tw_pool.h"

void tw_max_pool_2d_s16(const tw_pool *p, const void *in, void *out)
{
    tw_pool_over(p, tw_whole_of(in, p->in, 2), tw_whole_of(out, p->out, 2), tw_all(p->out), TW_POOL_S16, INT16_MIN, tw_max,
                 tw_pool_highest_of);
}
