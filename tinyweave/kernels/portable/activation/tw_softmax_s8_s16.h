/* tw_softmax_s8_s16.h - softmax of int8 over the channels of each pixel, with int16 results. */
#ifndef TW_SOFTMAX_S8_S16_H
#define TW_SOFTMAX_S8_S16_H

#include "tw_softmax.h"

/* The output has the scale 1/65536 and the zero point -32768. Needs no scratch. */
void tw_softmax_s8_s16(const tw_softmax *p, const void *in, void *out);

#endif
