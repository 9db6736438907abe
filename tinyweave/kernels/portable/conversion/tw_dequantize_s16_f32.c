/* tw_dequantize_s16_f32.c - int16 to float, portable C. */
#include "tw_quantize.h"

void tw_dequantize_s16_f32(const tw_quantization *p, const void *in, void *out)
{
    const int32_t count = p->shape.h * p->shape.w * p->shape.c;
    for (int32_t i = 0; i < count; ++i) {
        ((float *)out)[i] = p->scale * (float)(((const int16_t *)in)[i] - p->zero);
    }
}
