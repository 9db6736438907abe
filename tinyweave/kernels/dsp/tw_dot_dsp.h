/* tw_dot_dsp.h - tw_dot.h with the Arm DSP extension, for weights that are not packed into a stream. */
#ifndef TW_DOT_DSP_H
#define TW_DOT_DSP_H

#include "tw.h"

/* tw_dot4 and tw_dot1 with sums modulo 2^32. */
void tw_dot4_dsp(const int8_t *x, int32_t zero, const int8_t *weights, int32_t filter, int32_t count, int32_t *sums);
void tw_dot1_dsp(const int8_t *x, int32_t zero, const int8_t *weights, int32_t count, int32_t *sum);

#endif
