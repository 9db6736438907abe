/* tw_max_pool_2d_s8_m3.c - int8 maximum over a window in plain C: four channels of a word at once, for cores that load words from
 * any address. */
#include "tw_pool.h"

#include "tw_max_pool_words.h"

#define SIGNS 0x80808080u

/* The larger of each two bytes, in 12 instructions. */
static inline uint32_t larger(uint32_t x, uint32_t y)
{
    const uint32_t differ = x ^ y, apart = (x | SIGNS) - (y & ~SIGNS);         /* sign set: the low 7 bits of x are not less */
    const uint32_t not_less = (apart ^ (differ & (apart ^ y))) & SIGNS;        /* if the signs differ, that of y decides */
    return y ^ (differ & ((not_less << 1) - (not_less >> 7)));
}

/* A tw_pool_pixel. */
static void pixel(const tw_pool *p, const tw_view *in, const tw_pool_window *window, int8_t *to)
{
    tw_highest_pixel(in, window, to, SIGNS, larger);
    for (int32_t i = 0; (p->out_min > -128 || p->out_max < 127) && i < p->in.c; ++i) {
        to[i] = (int8_t)tw_clamp(to[i], p->out_min, p->out_max);
    }
}

TW_FORMS(tw_max_pool_2d_s8_m3, tw_pool, tw_whole(in, p->in), tw_whole(out, p->out), p->out,
         tw_pool_each(p, in, out, range, 1, pixel))
