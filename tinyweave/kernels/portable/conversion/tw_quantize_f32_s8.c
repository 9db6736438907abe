/* tw_quantize_f32_s8.c - float to int8, portable C. */
#include "tw_quantize.h"

void tw_quantize_f32_s8_part(const tw_quantization *p, tw_view in, tw_view out, tw_range range)
{
    TW_EACH_ELEMENT(p, in, float, out, int8_t, range, tw_quantize_element(p, from[i], -128, 127));
}

TW_WHOLE_FORM(tw_quantize_f32_s8, tw_quantization, tw_whole_of(in, p->shape, sizeof(float)), tw_whole(out, p->shape), p->shape)
