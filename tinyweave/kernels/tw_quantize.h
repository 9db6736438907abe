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
    if (scaled != scaled) {
        return low;
    }
    if (scaled <= -131072.0f || scaled >= 131072.0f) {
        return scaled < 0.0f ? low : high;
    }
    const int32_t whole = (int32_t)scaled;
    const float rest = scaled - (float)whole;
    const int32_t rounded = whole + (rest >= 0.5f ? 1 : 0) - (rest <= -0.5f ? 1 : 0);
    return tw_clamp(rounded + p->zero, low, high);
}

#endif
