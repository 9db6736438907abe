/* tw_resize_bilinear_s8_float.c - int8 bilinear interpolation in floats, portable C.
 *
 * Each product and each sum is rounded by itself: fused multiply-adds would give other bytes.
 */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=off")
#else
#pragma STDC FP_CONTRACT OFF
#endif

#include "tw_resize.h"

/* A place between two neighbours, and how much of each is in it. */
typedef struct { int32_t low, high; float of_low, of_high; } place;

static place place_of(int32_t index, float scale, float first, int32_t size)
{
    const float at = ((float)index + first) * scale - first;
    place found;
    found.low = at > 0.0f ? (int32_t)at : 0;
    found.high = tw_min(found.low + (at > (float)found.low ? 1 : 0), size - 1);
    found.of_high = at - (float)found.low;
    found.of_low = 1.0f - found.of_high;
    return found;
}

void tw_resize_bilinear_s8_float_part(const tw_resize_bilinear_float *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t channels = p->in.c;
    for (int32_t row = range.row_begin; row < range.row_end; ++row) {
        const place y = place_of(row, p->scale_h, p->first, p->in.h);
        int8_t *to = (int8_t *)tw_pixel(&out, row, range.col_begin, channels);
        for (int32_t col = range.col_begin; col < range.col_end; ++col) {
            const place x = place_of(col, p->scale_w, p->first, p->in.w);
            const int8_t *a = (const int8_t *)tw_pixel(&in, y.low, x.low, channels);
            const int8_t *b = (const int8_t *)tw_pixel(&in, y.high, x.low, channels);
            const int8_t *c = (const int8_t *)tw_pixel(&in, y.low, x.high, channels);
            const int8_t *d = (const int8_t *)tw_pixel(&in, y.high, x.high, channels);
            for (int32_t i = 0; i < channels; ++i) {
                float sum = (float)(a[i] + 128) * y.of_low * x.of_low;
                sum += (float)(b[i] + 128) * y.of_high * x.of_low;
                sum += (float)(c[i] + 128) * y.of_low * x.of_high;
                sum += (float)(d[i] + 128) * y.of_high * x.of_high;
                *to++ = (int8_t)((int32_t)(sum + 0.5f) - 128);
            }
        }
    }
}

TW_WHOLE_FORM(tw_resize_bilinear_s8_float, tw_resize_bilinear_float, tw_whole(in, p->in), tw_whole(out, p->out), p->out)
