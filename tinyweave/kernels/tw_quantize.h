/* tw_quantize.h - float to integers and back: real = scale * (q - zero). */
#ifndef TW_QUANTIZE_H
#define TW_QUANTIZE_H

#include "tw.h"

typedef struct {
    tw_shape shape;  /* of input and output */
    float scale;
    int32_t zero;    /* zero point */
} tw_quantization;

#endif
