/* tw_mul_s8_dsp.h - int8 product with broadcasting with the Arm DSP extension. */
#ifndef TW_MUL_S8_DSP_H
#define TW_MUL_S8_DSP_H

#include "tw_mul_s8.h"

typedef struct {
    tw_mul mul;     /* its multiplier is at least 2^30, its shift -31 .. -2 */
    int32_t power;  /* 2^(32 + shift) */
    int32_t sign;   /* as for tw_rescale_doubled */
} tw_mul_dsp;

/* Needs no scratch; out may lie over an operand of the same extents. */
void tw_mul_s8_dsp(const tw_mul_dsp *p, const void *a, const void *b, void *out);

/* The same for a range of tw_fold(out), from and to parts of maps. */
void tw_mul_s8_dsp_part(const tw_mul_dsp *p, tw_view a, tw_view b, tw_view out, tw_range range);

#endif
