/* tw_binary_dsp.h - ops on two int8 operands with the Arm DSP extension. A _part form computes a range of the output, from and to
 * parts of maps. */
#ifndef TW_BINARY_DSP_H
#define TW_BINARY_DSP_H

#include "tw_binary.h"

/* Sum or difference of two maps of one shape. TFLite rescales the operand with the larger scale by exactly 1/2; it is `plain`
 * here, the other one `scaled`. */
typedef struct {
    tw_shape shape;
    int32_t plain_zero, scaled_zero, out_zero;  /* zero points */
    int32_t out_min, out_max;                   /* the fused activation's clamp, within -128 .. 127 */
    int32_t multiplier, exponent;               /* of `scaled`: Q31, negative for a difference; 0 .. 31, goes right */
    int32_t out_multiplier, out_power;          /* Q31; 2^(32 - exponent), exponent 2 .. 31 */
    int32_t sign;                               /* as for tw_rescale_doubled */
} tw_add_dsp;

/* Needs no scratch; out may lie over an operand. */
void tw_add_s8_dsp(const tw_add_dsp *p, const void *plain, const void *scaled, void *out);
void tw_add_s8_dsp_part(const tw_add_dsp *p, tw_view plain, tw_view scaled, tw_view out, tw_range range);

/* Product with broadcasting. */
typedef struct {
    tw_mul mul;     /* its multiplier is at least 2^30, its shift -31 .. -2 */
    int32_t power;  /* 2^(32 + shift) */
    int32_t sign;   /* as for tw_rescale_doubled */
} tw_mul_dsp;

/* Needs no scratch; out may lie over an operand of the same extents. */
void tw_mul_s8_dsp(const tw_mul_dsp *p, const void *a, const void *b, void *out);
void tw_mul_s8_dsp_part(const tw_mul_dsp *p, tw_view a, tw_view b, tw_view out, tw_range range);

#endif
