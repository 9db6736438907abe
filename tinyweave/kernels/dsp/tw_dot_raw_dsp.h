/* tw_dot_raw_dsp.h - tw_dot4 with the Arm DSP extension, with sums modulo 2^32. */
#ifndef TW_DOT_RAW_DSP_H
#define TW_DOT_RAW_DSP_H

#include "tw.h"

void tw_dot4_raw_dsp(const int8_t *x, int32_t zero, const int8_t *weights, int32_t filter, int32_t count, int32_t *sums);

#endif
