/* tw_dequantize_s8_f32.h - int8 to float. */
#ifndef TW_DEQUANTIZE_S8_F32_H
#define TW_DEQUANTIZE_S8_F32_H

#include "tw_quantize.h"

/* Needs no scratch. */
void tw_dequantize_s8_f32(const tw_quantization *p, const void *in, void *out);

/* The same for a range of the output, from and to parts of maps. */
void tw_dequantize_s8_f32_part(const tw_quantization *p, tw_view in, tw_view out, tw_range range);

#endif
