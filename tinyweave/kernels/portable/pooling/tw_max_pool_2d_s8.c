/* tw_max_pool_2d_s8.c - int8 maximum over a window, portable C: the specification of every faster variant. */
#include "tw_pool.h"

static inline int8_t of_channel(const tw_pool *p, const tw_view *in, const tw_pool_window *window, int32_t channel)
{
    return (int8_t)tw_clamp(tw_pool_highest(in, window, channel, 0), p->out_min, p->out_max);
}

void tw_max_pool_2d_s8_part(const tw_pool *p, tw_view in, tw_view out, tw_range range)
{
    tw_pool_over(p, in, out, range, 0, of_channel);
}

TW_WHOLE_FORM(tw_max_pool_2d_s8, tw_pool, tw_whole(in, p->in), tw_whole(out, p->out), p->out)
