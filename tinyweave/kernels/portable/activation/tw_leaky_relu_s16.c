/* tw_leaky_relu_s16.c - int16 with one slope from the zero point on and another below it, portable C. */
#include "tw_leaky_relu_s16.h"

void tw_leaky_relu_s16_part(const tw_leaky_relu *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t pixel = p->shape.c * (int32_t)sizeof(int16_t);
    const int32_t count = (range.col_end - range.col_begin) * p->shape.c;
    const int32_t low = -32768 - p->out_zero, high = 32767 - p->out_zero;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int16_t *from = (const int16_t *)tw_pixel(&in, y, range.col_begin, pixel);
        int16_t *to = (int16_t *)tw_pixel(&out, y, range.col_begin, pixel);
        for (int32_t i = 0; i < count; ++i) {
            const int32_t x = from[i] - p->in_zero;
            const int32_t scaled = x >= 0 ? tw_requantize(x, p->positive_multiplier, p->positive_shift)
                                          : tw_requantize(x, p->negative_multiplier, p->negative_shift);
            to[i] = (int16_t)(tw_clamp(scaled, low, high) + p->out_zero);
        }
    }
}

void tw_leaky_relu_s16(const tw_leaky_relu *p, const void *in, void *out)
{
    const tw_shape bytes = {p->shape.h, p->shape.w, p->shape.c * (int32_t)sizeof(int16_t)};
    tw_leaky_relu_s16_part(p, tw_whole(in, bytes), tw_whole(out, bytes), tw_all(p->shape));
}
