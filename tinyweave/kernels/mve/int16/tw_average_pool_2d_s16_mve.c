/* tw_average_pool_2d_s16_mve.c - int16 average over a window with the Arm MVE extension, eight channels at a time. */
#include "tw_pool_mve.h"

#include "tw_quotient_mve.h"

/* A tw_pool_pixel. */
static void pixel(const tw_pool *p, const tw_view *in, const tw_pool_window *window, int8_t *to)
{
#if TW_HAS_MVE
    const tw_quotient by = tw_quotient_of(0, window->rows * window->cols);
    const int16x8_t low = vdupq_n_s16((int16_t)p->out_min), high = vdupq_n_s16((int16_t)p->out_max);
    const int8_t *first = (const int8_t *)in->data + window->offset;
    for (int32_t left = p->in.c; left > 0; left -= 8, first += TW_MVE_LANES, to += TW_MVE_LANES) {
        const mve_pred16_t some = vctp16q((uint32_t)left);
        const int8_t *row = first;
        int32x4_t even = vdupq_n_s32(0), odd = even;
        for (int32_t rows = window->rows; rows > 0; --rows, row += in->row_stride) {
            const int8_t *at = row;
            for (int32_t cols = window->cols; cols > 0; --cols, at += window->pixel) {
                const int16x8_t values = vldrhq_z_s16((const int16_t *)(const void *)at, some);
                even = vaddq_s32(even, vmovlbq_s16(values));
                odd = vaddq_s32(odd, vmovltq_s16(values));
            }
        }
        const int16x8_t mean = vmovntq_s32(vreinterpretq_s16_s32(tw_quotients(even, &by)), tw_quotients(odd, &by));
        vstrhq_p_s16((int16_t *)(void *)to, vminq_s16(vmaxq_s16(mean, low), high), some);
    }
#else
    int16_t *const values = (int16_t *)(void *)to;
    for (int32_t i = 0; i < p->in.c; ++i) {
        const int32_t sum = tw_pool_join(in, window, i, TW_POOL_S16, 0, tw_plus);
        values[i] = (int16_t)tw_pool_average_s16_of(p, sum, window->rows * window->cols);
    }
#endif
}

void tw_average_pool_2d_s16_mve(const tw_pool *p, const void *in, void *out)
{
    tw_pool_each(p, tw_whole_of(in, p->in, 2), tw_whole_of(out, p->out, 2), tw_all(p->out), 2, pixel);
}
