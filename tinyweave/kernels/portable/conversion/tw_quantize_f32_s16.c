/* tw_quantize_f32_s16.c - float to int16, portable C. */
#include "tw_quantize.h"

void tw_quantize_f32_s16(const tw_quantization *p, const void *in, void *out)
{
    const int32_t count = p->shape.h * p->shape.w * p->shape.c;
    for (int32_t i = 0; i < count; ++i) {
        ((int16_t *)out)[i] = (int16_t)tw_quantize_element(p, ((const float *)in)[i], -32768, 32767);
    }
}
