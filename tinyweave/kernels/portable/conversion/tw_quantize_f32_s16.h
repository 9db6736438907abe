/* tw_quantize_f32_s16.h - float to int16. */
#ifndef TW_QUANTIZE_F32_S16_H
#define TW_QUANTIZE_F32_S16_H

#include "tw_quantize.h"

/* in / scale, rounded half away from zero, plus the zero point, saturated. Needs no scratch. */
void tw_quantize_f32_s16(const tw_quantization *p, const void *in, void *out);

#endif
