/* tw_quantize.h - float to integers and back: real = scale * (q - zero). */
#ifndef TW_QUANTIZE_H
#define TW_QUANTIZE_H

#include "tw.h"

typedef struct {
    tw_shape shape;  /* of input and output */
    float scale;
    int32_t zero;    /* zero point */
} tw_quantization;

/* x / scale, rounded half away from zero, plus the zero point, within [low, high], themselves within -65000 .. 65000.
 * What is not a number becomes low, as in LiteRT on x86-64. */
static inline int32_t tw_quantize_element(const tw_quantization *p, float x, int32_t low, int32_t high)
{
    const float scaled = x / p->scale;
    if (scaled > -131072.0f && scaled < 131072.0f) {
        const int32_t twice = (int32_t)(scaled + scaled); /* goes towards zero; doubling is exact */
        return tw_clamp(((twice + 1 + (twice >> 31)) >> 1) + p->zero, low, high);
    }
    return scaled > 0.0f ? high : low;
}

/* Float to int8, uint8 or int16: in / scale, rounded half away from zero, plus the zero point, saturated. No scratch; out may
 * begin where in does, unless it is int16. */
TW_DECLARE_FORMS(tw_quantize_f32_s8, tw_quantization);
TW_DECLARE_FORMS(tw_quantize_f32_u8, tw_quantization);
void tw_quantize_f32_s16(const tw_quantization *p, const void *in, void *out);

/* int8, uint8 or int16 to float. Need no scratch. */
TW_DECLARE_FORMS(tw_dequantize_s8_f32, tw_quantization);
TW_DECLARE_FORMS(tw_dequantize_u8_f32, tw_quantization);
void tw_dequantize_s16_f32(const tw_quantization *p, const void *in, void *out);

#endif
