/* tw_quantize_f32_u8.h - float to uint8. */
#ifndef TW_QUANTIZE_F32_U8_H
#define TW_QUANTIZE_F32_U8_H

#include "tw_quantize.h"

/* in / scale, rounded half away from zero, plus the zero point, saturated. Needs no scratch; out may begin where in does. */
void tw_quantize_f32_u8(const tw_quantization *p, const void *in, void *out);

/* The same for a range of the output, from and to parts of maps. */
void tw_quantize_f32_u8_part(const tw_quantization *p, tw_view in, tw_view out, tw_range range);

#endif
