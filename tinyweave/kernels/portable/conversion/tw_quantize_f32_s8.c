/* tw_quantize_f32_s8.c - float to int8, portable C. */
#include "tw_quantize.h"

void tw_quantize_f32_s8_part(const tw_quantization *p, tw_view in, tw_view out, tw_range range)
{
    TW_EACH_ELEMENT(p, in, float, out, int8_t, range, tw_quantize_element(p, from[i], -128, 127));
}

void tw_quantize_f32_s8(const tw_quantization *p, const void *in, void *out)
{
    tw_quantize_f32_s8_part(p, tw_whole_f32(in, p->shape), tw_whole(out, p->shape), tw_all(p->shape));
}
