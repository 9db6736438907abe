/* tw_resize_bilinear.h - the loops of int8 bilinear interpolation in integers: each output pixel mixes four input pixels. */
#ifndef TW_RESIZE_BILINEAR_H
#define TW_RESIZE_BILINEAR_H

#include "tw_resize.h"

enum { TW_ONE = 1024 };

/* A place between two neighbours, and how much of `high` is in it; the rest is of `low`. */
typedef struct { int32_t low, high, part; } tw_place;

static inline tw_place tw_place_of(int32_t index, int32_t scale, int32_t offset, int32_t size)
{
    const int32_t at = index * scale + offset;
    tw_place found;
    found.low = tw_max(at, 0) / TW_ONE;
    found.high = tw_min((at + TW_ONE - 1) / TW_ONE, size - 1);
    found.part = at - found.low * TW_ONE;
    return found;
}

/* Four input pixels, and how much of each, in 2^-20, is in the output pixel. */
typedef struct { const int8_t *a, *b, *c, *d; int32_t of_a, of_b, of_c, of_d; } tw_mixture;

/* Mixes the channels of a pixel, which go to `to`; returns the place behind them. */
TW_INLINE int8_t *tw_mix(const tw_mixture *m, int32_t channels, int8_t *to)
{
    const int8_t *const a = m->a, *const b = m->b, *const c = m->c, *const d = m->d;
    const int32_t of_a = m->of_a, of_b = m->of_b, of_c = m->of_c, of_d = m->of_d; /* copies: `to` might be where they are */
    for (int32_t i = 0; i < channels; ++i) {
        const int32_t sum = a[i] * of_a + b[i] * of_b + c[i] * of_c + d[i] * of_d;
        *to++ = (int8_t)tw_rounding_shift(sum, 20);
    }
    return to;
}

TW_INLINE void tw_resize_bilinear_over(const tw_resize_bilinear *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t channels = p->in.c;
    for (int32_t row = range.row_begin; row < range.row_end; ++row) {
        const tw_place y = tw_place_of(row, p->scale.h, p->offset.h, p->in.h);
        int8_t *to = (int8_t *)tw_pixel(&out, row, range.col_begin, channels);
        for (int32_t col = range.col_begin; col < range.col_end; ++col) {
            const tw_place x = tw_place_of(col, p->scale.w, p->offset.w, p->in.w);
            tw_mixture m;
            m.a = (const int8_t *)tw_pixel(&in, y.low, x.low, channels);
            m.b = (const int8_t *)tw_pixel(&in, y.low, x.high, channels);
            m.c = (const int8_t *)tw_pixel(&in, y.high, x.low, channels);
            m.d = (const int8_t *)tw_pixel(&in, y.high, x.high, channels);
            m.of_b = (TW_ONE - y.part) * x.part;
            m.of_a = (TW_ONE - y.part) * TW_ONE - m.of_b;
            m.of_d = y.part * x.part;
            m.of_c = y.part * TW_ONE - m.of_d;
            to = tw_mix(&m, channels, to);
        }
    }
}

#endif
