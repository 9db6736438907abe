/* tw_quantize_f32_s8.c - float to int8, portable C. */
#include "tw_quantize.h"

void tw_quantize_f32_s8_part(const tw_quantization *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t count = (range.col_end - range.col_begin) * p->shape.c;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const float *from = (const float *)tw_pixel(&in, y, range.col_begin, p->shape.c * (int32_t)sizeof(float));
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, p->shape.c);
        for (int32_t i = 0; i < count; ++i) {
            to[i] = (int8_t)tw_quantize_element(p, from[i], -128, 127);
        }
    }
}

void tw_quantize_f32_s8(const tw_quantization *p, const void *in, void *out)
{
    tw_quantize_f32_s8_part(p, tw_whole_f32(in, p->shape), tw_whole(out, p->shape), tw_all(p->shape));
}
