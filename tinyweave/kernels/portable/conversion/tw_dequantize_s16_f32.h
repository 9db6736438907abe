/* tw_dequantize_s16_f32.h - int16 to float. */
#ifndef TW_DEQUANTIZE_S16_F32_H
#define TW_DEQUANTIZE_S16_F32_H

#include "tw_quantize.h"

/* Needs no scratch. */
void tw_dequantize_s16_f32(const tw_quantization *p, const void *in, void *out);

#endif
