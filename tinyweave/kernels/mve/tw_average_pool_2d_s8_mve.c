/* tw_average_pool_2d_s8_mve.c - int8 average over a window with the Arm MVE extension, sixteen channels at a time.
 *
 * Cost: that of tw_sums_mve.h, and about 80 instructions per sixteen outputs. */
#include "tw_pool_mve.h"

#include "tw_quotient_mve.h"
#include "tw_sums_mve.h"

#if TW_HAS_MVE

typedef struct { const tw_pool *p; tw_quotient by; } quotient;

static inline quotient quotient_of(const tw_pool *p, int32_t count)
{
    const quotient by = {p, tw_quotient_of(p->away_from, count)};
    return by;
}

/* A tw_sums_put, whose parameters are a quotient. */
static inline void put(const void *params, tw_sixteen sums, mve_pred16_t some, int8_t *to)
{
    const quotient *const by = (const quotient *)params;
    const tw_pool *const p = by->p;
    int16x8_t even = vreinterpretq_s16_s32(tw_quotients(sums.val[0], &by->by)), odd = vreinterpretq_s16_s32(tw_quotients(sums.val[1], &by->by));
    even = vmovntq_s32(even, tw_quotients(sums.val[2], &by->by));
    odd = vmovntq_s32(odd, tw_quotients(sums.val[3], &by->by));
    const int8x16_t out = vaddq_n_s8(vmovntq_s16(vreinterpretq_s8_s16(even), odd), (int8_t)p->away_from);
    const int8x16_t low = vdupq_n_s8((int8_t)p->out_min), high = vdupq_n_s8((int8_t)p->out_max);
    vstrbq_p_s8(to, vminq_s8(vmaxq_s8(out, low), high), some);
}

static void pixel(const tw_pool *p, const tw_view *in, const tw_pool_window *window, int8_t *to)
{
    const quotient by = quotient_of(p, window->rows * window->cols);
    tw_sums_put_pixel(in, *window, &by, to, put);
}

void tw_average_pool_2d_s8_mve_rows(const tw_pool *p, tw_view in, void *out, tw_range range, int32_t *sums)
{
    const quotient by = quotient_of(p, p->in.h * p->in.w);
    tw_sums_put_rows(&in, p->in.c, range, range.row_end == p->in.h, sums, &by, (int8_t *)out, put);
}

TW_POOL_FORMS(tw_average_pool_2d_s8_mve, tw_pool_each(p, in, out, range, 1, pixel))

#else

TW_AVERAGE_POOL_FORMS(tw_average_pool_2d_s8_mve)

#endif
