/* tw_mean_s8_mve.c - int8 mean over any axes with the Arm MVE extension, sixteen neighbouring outputs at a time.
 *
 * Cost: that of tw_sums_mve.h, and about 80 instructions per sixteen outputs; 3 per sixteen neighbours that are added up. */
#include "tw_reduction.h"

#include "tw_mean.h"
#include "tw_sums_mve.h"

#if TW_HAS_MVE

/* The outputs of four sums, which the caller narrows with saturation. */
static inline int32x4_t scaled(const tw_mean *p, int32x4_t sums)
{
    const int32x4_t centred = vaddq_n_s32(sums, -p->in_zero * p->reduced[0] * p->reduced[1]);
    return vqaddq_n_s32(tw_mve_requantize(centred, p->multiplier, p->shift), p->out_zero);
}

/* A tw_sums_put, whose parameters are a tw_mean. Saturating to int8 equals the portable kernel's clamp. */
static inline void put(const void *params, tw_sixteen sums, mve_pred16_t some, int8_t *to)
{
    const tw_mean *const p = (const tw_mean *)params;
    int16x8_t even = vreinterpretq_s16_s32(sums.val[0]), odd = even; /* all lanes are replaced */
    even = vqmovntq_s32(vqmovnbq_s32(even, scaled(p, sums.val[0])), scaled(p, sums.val[2]));
    odd = vqmovntq_s32(vqmovnbq_s32(odd, scaled(p, sums.val[1])), scaled(p, sums.val[3]));
    vstrbq_p_s8(to, vqmovntq_s16(vqmovnbq_s16(vreinterpretq_s8_s16(even), even), odd), some);
}

/* A tw_mean_outputs. */
static int8_t *outputs(const tw_mean *p, const int8_t *from, const tw_mean_runs *runs, int8_t *to)
{
    if (runs->inner == 1) {
        int32_t sum = runs->first;
        for (int32_t row = 0; row < runs->rows; ++row) {
            sum = tw_mve_add_run(sum, from + row * runs->outer, runs->cols);
        }
        *to = tw_mean_finish(p, sum);
        return to + 1;
    }
    const tw_mean local = *p; /* a store of an int8_t could change *p */
    const tw_view in = {tw_viewed(from), runs->outer, runs->rows, 0, 0};
    const tw_pool_window window = {0, runs->rows, runs->cols, runs->inner};
    tw_sums_put_pixel(&in, window, &local, to, put);
    return to + runs->inner;
}

TW_MEAN_WHOLE_FORMS(tw_mean_s8_mve, outputs)

void tw_mean_s8_mve_rows(const tw_mean *p, tw_view in, void *out, tw_range rows, int32_t *sums)
{
    const tw_range range = tw_mean_pixels(p, &in, rows);
    tw_sums_put_rows(&in, p->kept[1], range, tw_mean_ends(p, range), sums, p, (int8_t *)out, put);
}

#else

TW_MEAN_FORMS(tw_mean_s8_mve)

#endif
