/* tw_max_pool_2d_s8_mve.c - int8 maximum over a window with the Arm MVE extension, sixteen channels at a time.
 *
 * The maxima stay in q0 while a low-overhead loop runs over the pixels of a row. A predicate lets the last vector of a pixel
 * load and store only the channels left. Cost: five instructions per pixel of the window and sixteen channels. */
#include "tw_pool_mve.h"

#include "tw_mve.h"

#if TW_HAS_MVE

static void pixel(const tw_pool *p, const tw_view *in, const tw_pool_window *window, int8_t *to)
{
    const int32_t ring = in->ring_height * in->row_stride, step = window->pixel;
    const int8x16_t low = vdupq_n_s8((int8_t)p->out_min), high = vdupq_n_s8((int8_t)p->out_max);
    int32_t first = window->offset;
    for (int32_t left = step; left > 0; left -= TW_MVE_LANES) {
        const mve_pred16_t some = vctp8q((uint32_t)left);
        int8x16_t most = low;
        int32_t offset = first;
        for (int32_t row = window->rows; row > 0; --row) {
            const int8_t *from = (const int8_t *)in->data + offset;
            for (int32_t col = window->cols; col > 0; --col) {
                most = vmaxq_s8(most, vldrbq_z_s8(from, some));
                from += step;
            }
            offset = tw_down(offset, in->row_stride, ring);
        }
        vstrbq_p_s8(to, vminq_s8(most, high), some);
        first += TW_MVE_LANES;
        to += TW_MVE_LANES;
    }
}

#else

static void pixel(const tw_pool *p, const tw_view *in, const tw_pool_window *window, int8_t *to)
{
    for (int32_t channel = 0; channel < window->pixel; ++channel) {
        to[channel] = (int8_t)tw_min(tw_pool_join(in, window, channel, TW_POOL_S8, p->out_min, tw_max), p->out_max);
    }
}

#endif

TW_FORMS(tw_max_pool_2d_s8_mve, tw_pool, tw_whole(in, p->in), tw_whole(out, p->out), p->out,
         tw_pool_each(p, in, out, range, pixel))
