/* tw_dequantize_s8_f32.c - int8 to float, portable C. */
#include "tw_quantize.h"

void tw_dequantize_s8_f32_part(const tw_quantization *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t count = (range.col_end - range.col_begin) * p->shape.c;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *from = (const int8_t *)tw_pixel(&in, y, range.col_begin, p->shape.c);
        float *to = (float *)tw_pixel(&out, y, range.col_begin, p->shape.c * (int32_t)sizeof(float));
        for (int32_t i = 0; i < count; ++i) {
            to[i] = p->scale * (float)(from[i] - p->zero);
        }
    }
}

void tw_dequantize_s8_f32(const tw_quantization *p, const void *in, void *out)
{
    tw_dequantize_s8_f32_part(p, tw_whole(in, p->shape), tw_whole_f32(out, p->shape), tw_all(p->shape));
}
