/* tw_resize_bilinear_s8.c - int8 bilinear interpolation, portable C: the specification of every faster variant. */
#include "tw_resize.h"

enum { ONE = 1024 };

/* A place between two neighbours, and how much of `high` is in it; the rest is of `low`. */
typedef struct { int32_t low, high, part; } place;

static place place_of(int32_t index, int32_t scale, int32_t offset, int32_t size)
{
    const int32_t at = index * scale + offset;
    place found;
    found.low = tw_max(at, 0) / ONE;
    found.high = tw_min((at + ONE - 1) / ONE, size - 1);
    found.part = at - found.low * ONE;
    return found;
}

void tw_resize_bilinear_s8_part(const tw_resize_bilinear *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t channels = p->in.c;
    for (int32_t row = range.row_begin; row < range.row_end; ++row) {
        const place y = place_of(row, p->scale.h, p->offset.h, p->in.h);
        int8_t *to = (int8_t *)tw_pixel(&out, row, range.col_begin, channels);
        for (int32_t col = range.col_begin; col < range.col_end; ++col) {
            const place x = place_of(col, p->scale.w, p->offset.w, p->in.w);
            const int8_t *a = (const int8_t *)tw_pixel(&in, y.low, x.low, channels);
            const int8_t *b = (const int8_t *)tw_pixel(&in, y.low, x.high, channels);
            const int8_t *c = (const int8_t *)tw_pixel(&in, y.high, x.low, channels);
            const int8_t *d = (const int8_t *)tw_pixel(&in, y.high, x.high, channels);
            const int32_t of_b = (ONE - y.part) * x.part, of_a = (ONE - y.part) * ONE - of_b;
            const int32_t of_d = y.part * x.part, of_c = y.part * ONE - of_d;
            for (int32_t channel = 0; channel < channels; ++channel) {
                const int32_t sum = a[channel] * of_a + b[channel] * of_b + c[channel] * of_c + d[channel] * of_d;
                *to++ = (int8_t)tw_rounding_shift(sum, 20);
            }
        }
    }
}

TW_WHOLE_FORM(tw_resize_bilinear_s8, tw_resize_bilinear, tw_whole(in, p->in), tw_whole(out, p->out), p->out)
