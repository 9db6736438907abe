/* tw_quantize_f32_u8.c - float to uint8, portable C. */
#include "tw_quantize.h"

TW_ELEMENTWISE_FORMS(tw_quantize_f32_u8, tw_quantization, float, uint8_t, tw_quantize_element(p, from[i], 0, 255))
