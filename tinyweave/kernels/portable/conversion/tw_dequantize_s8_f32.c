/* tw_dequantize_s8_f32.c - int8 to float, portable C. */
#include "tw_quantize.h"

TW_ELEMENTWISE_FORMS(tw_dequantize_s8_f32, tw_quantization, int8_t, float, p->scale * (float)(from[i] - p->zero))
