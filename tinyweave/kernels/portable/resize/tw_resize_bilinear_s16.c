/* tw_resize_bilinear_s16.c - int16 bilinear interpolation, portable C. */
#include "tw_resize.h"

#include "tw_resize_bilinear.h"

void tw_resize_bilinear_s16(const tw_resize_bilinear *p, const void *in, void *out)
{
    const int16_t *const from = (const int16_t *)in;
    int16_t *to = (int16_t *)out;
    for (int32_t row = 0; row < p->out.h; ++row) {
        const tw_place y = tw_place_of(row, p->scale.h, p->offset.h, p->in.h);
        const int32_t low_row = y.low * p->in.w, high_row = y.high * p->in.w;
        for (int32_t col = 0; col < p->out.w; ++col) {
            const tw_place x = tw_place_of(col, p->scale.w, p->offset.w, p->in.w);
            const int16_t *a = from + (low_row + x.low) * p->in.c, *b = from + (low_row + x.high) * p->in.c;
            const int16_t *c = from + (high_row + x.low) * p->in.c, *d = from + (high_row + x.high) * p->in.c;
            for (int32_t i = 0; i < p->in.c; ++i) {
                const int64_t upper = (int64_t)a[i] * (TW_ONE - x.part) + b[i] * x.part;
                const int64_t lower = (int64_t)c[i] * (TW_ONE - x.part) + d[i] * x.part;
                const int64_t sum = upper * (TW_ONE - y.part) + lower * y.part;
                const int32_t size = (int32_t)(((sum < 0 ? -sum : sum) + (1 << 19)) >> 20);
                *to++ = (int16_t)(sum < 0 ? -size : size);
            }
        }
    }
}
