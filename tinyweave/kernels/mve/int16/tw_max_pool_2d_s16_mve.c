/* tw_max_pool_2d_s16_mve.c - int16 maximum over a window with the Arm MVE extension, eight channels at a time. */
#include "tw_pool_mve.h"

#include "tw_mve.h"

/* A tw_pool_pixel. */
static void pixel(const tw_pool *p, const tw_view *in, const tw_pool_window *window, int8_t *to)
{
#if TW_HAS_MVE
    const int16x8_t low = vdupq_n_s16((int16_t)p->out_min), high = vdupq_n_s16((int16_t)p->out_max);
    const int8_t *first = (const int8_t *)in->data + window->offset;
    for (int32_t left = p->in.c; left > 0; left -= 8, first += TW_MVE_LANES, to += TW_MVE_LANES) {
        const mve_pred16_t some = vctp16q((uint32_t)left);
        const int8_t *row = first;
        int16x8_t highest = low;
        for (int32_t rows = window->rows; rows > 0; --rows, row += in->row_stride) {
            const int8_t *at = row;
            for (int32_t cols = window->cols; cols > 0; --cols, at += window->pixel) {
                highest = vmaxq_s16(highest, vldrhq_z_s16((const int16_t *)(const void *)at, some));
            }
        }
        vstrhq_p_s16((int16_t *)(void *)to, vminq_s16(highest, high), some);
    }
#else
    int16_t *const values = (int16_t *)(void *)to;
    for (int32_t i = 0; i < p->in.c; ++i) {
        values[i] = (int16_t)tw_min(tw_pool_join(in, window, i, TW_POOL_S16, p->out_min, tw_max), p->out_max);
    }
#endif
}

void tw_max_pool_2d_s16_mve(const tw_pool *p, const void *in, void *out)
{
    tw_pool_each(p, tw_whole_of(in, p->in, 2), tw_whole_of(out, p->out, 2), tw_all(p->out), 2, pixel);
}
