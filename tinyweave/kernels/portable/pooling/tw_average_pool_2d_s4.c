/* tw_average_pool_2d_s4.c - int4 average over a window, portable C. */
#include "tw_pool.h"

static inline int8_t of_channel(const tw_pool *p, const tw_view *in, const tw_pool_window *window, int32_t channel)
{
    const int32_t count = window->rows * window->cols;
    return tw_pool_average(p, tw_pool_sum(in, window, channel, 1) - p->away_from * count, count);
}

void tw_average_pool_2d_s4_part(const tw_pool *p, tw_view in, tw_view out, tw_range range)
{
    tw_pool_over(p, in, out, range, 1, of_channel);
}

TW_WHOLE_FORM(tw_average_pool_2d_s4, tw_pool, tw_whole_s4(in, p->in), tw_whole_s4(out, p->out), p->out)
