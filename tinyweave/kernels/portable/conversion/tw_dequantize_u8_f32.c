/* tw_dequantize_u8_f32.c - uint8 to float, portable C. */
#include "tw_quantize.h"

TW_ELEMENTWISE_FORMS(tw_dequantize_u8_f32, tw_quantization, uint8_t, float, p->scale * (float)(from[i] - p->zero))
