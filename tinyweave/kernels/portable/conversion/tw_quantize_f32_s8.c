/* tw_quantize_f32_s8.c - float to int8, portable C. */
#include "tw_quantize.h"

TW_ELEMENTWISE_FORMS(tw_quantize_f32_s8, tw_quantization, float, int8_t, tw_quantize_element(p, from[i], -128, 127))
