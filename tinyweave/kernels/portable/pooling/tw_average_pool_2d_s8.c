/* tw_average_pool_2d_s8.c - int8 average over a window, portable C: the specification of every faster variant. */
#include "tw_pool.h"

#include "tw_sums.h"

TW_FORMS(tw_average_pool_2d_s8, tw_pool, tw_whole(in, p->in), tw_whole(out, p->out), p->out,
         tw_pool_over(p, in, out, range, TW_POOL_S8, 0, tw_plus, tw_pool_average_of))

void tw_average_pool_2d_s8_rows(const tw_pool *p, tw_view in, void *out, tw_range range, int32_t *sums)
{
    const int32_t count = p->in.h * p->in.w;
    tw_sums_add(sums, p->in.c, &in, range, -p->away_from * count, tw_sums_add_four);
    if (range.row_end == p->in.h) {
        for (int32_t channel = 0; channel < p->in.c; ++channel) {
            ((int8_t *)out)[channel] = tw_pool_average(p, sums[channel], count);
        }
    }
}
