/* tw_max_pool_2d_s8_dsp.c - int8 maximum over a window, with the Arm DSP extension. */
#include "tw_pool_dsp.h"

#include "tw_dsp.h"
#include "tw_max_pool_words.h"

/* A tw_pool_pixel. */
static void pixel(const tw_pool *p, const tw_view *in, const tw_pool_window *window, int8_t *to)
{
    tw_highest_pixel(in, window, to, 0x80808080u, tw_larger_bytes);
    tw_clamp_all(to, window->pixel, p->out_min, p->out_max);
}

TW_FORMS(tw_max_pool_2d_s8_dsp, tw_pool, tw_whole(in, p->in), tw_whole(out, p->out), p->out,
         tw_pool_each(p, in, out, range, 1, pixel))
