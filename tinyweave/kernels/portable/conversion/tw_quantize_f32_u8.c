/* tw_quantize_f32_u8.c - float to uint8, portable C. */
#include "tw_quantize.h"

void tw_quantize_f32_u8_part(const tw_quantization *p, tw_view in, tw_view out, tw_range range)
{
    TW_EACH_ELEMENT(p, in, float, out, uint8_t, range, tw_quantize_element(p, from[i], 0, 255));
}

TW_WHOLE_FORM(tw_quantize_f32_u8, tw_quantization, tw_whole_of(in, p->shape, sizeof(float)), tw_whole(out, p->shape), p->shape)
