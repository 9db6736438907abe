/* tw_dequantize_u8_f32.c - uint8 to float, portable C. */
#include "tw_quantize.h"

void tw_dequantize_u8_f32_part(const tw_quantization *p, tw_view in, tw_view out, tw_range range)
{
    TW_EACH_ELEMENT(p, in, uint8_t, out, float, range, p->scale * (float)(from[i] - p->zero));
}

TW_WHOLE_FORM(tw_dequantize_u8_f32, tw_quantization, tw_whole(in, p->shape), tw_whole_of(out, p->shape, sizeof(float)), p->shape)
