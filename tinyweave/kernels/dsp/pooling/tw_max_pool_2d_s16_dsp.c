/* tw_max_pool_2d_s16_dsp.c - int16 maximum over a window, with the Arm DSP extension. */
#include "tw_pool_dsp.h"

#include "tw_dsp.h"
#include "tw_max_pool_words.h"

/* A tw_pool_pixel. */
static void pixel(const tw_pool *p, const tw_view *in, const tw_pool_window *window, int8_t *to)
{
    tw_highest_pixel(in, window, to, 0x80008000u, tw_larger_lanes);
    int16_t *const values = (int16_t *)(void *)to;
    for (int32_t i = 0; (p->out_min > -32768 || p->out_max < 32767) && i < p->in.c; ++i) {
        values[i] = (int16_t)tw_clamp(values[i], p->out_min, p->out_max);
    }
}

void tw_max_pool_2d_s16_dsp(const tw_pool *p, const void *in, void *out)
{
    tw_pool_each(p, tw_whole_of(in, p->in, 2), tw_whole_of(out, p->out, 2), tw_all(p->out), 2, pixel);
}
