/* tw_binary_dsp.h - elementwise int8 ops on two operands with the Arm DSP extension. A _part form computes a range of the
 * output between views. No kernel needs scratch. */
#ifndef TW_BINARY_DSP_H
#define TW_BINARY_DSP_H

#include "tw_binary.h"

/* add or sub as one linear function, which equals TFLite's three rescalings for all operands:
 * ((a * a_factor >> 8) + (b * b_factor >> 8) + constant) >> TW_ADD_LINEAR_SHIFT, clamped to int8. */
#define TW_ADD_LINEAR_SHIFT 20
typedef struct {
    int32_t a_factor, b_factor, constant;  /* no sum of two products and the constant exceeds int32 */
    int32_t out_min, out_max;              /* the fused activation's clamp, within -128 .. 127 */
} tw_add_line;

/* Of two maps of one shape. */
typedef struct {
    tw_shape shape;
    tw_add_line line;
} tw_add_linear_dsp;

/* The output may alias an operand. */
TW_DECLARE_BINARY_FORMS(tw_add_s8_linear_dsp, tw_add_linear_dsp);

/* With broadcasting. */
typedef struct {
    tw_extents a, b, out;  /* each axis of a and b is that of out, or 1 */
    tw_add_line line;
} tw_add_broadcast_dsp;

/* The output may alias an operand of its shape. */
TW_DECLARE_BINARY_FORMS(tw_add_s8_broadcast_dsp, tw_add_broadcast_dsp);

/* mul with broadcasting. */
typedef struct {
    tw_mul mul;     /* its multiplier is at least 2^30, its shift -31 .. -2 */
    int32_t power;  /* 2^(32 + shift) */
    int32_t sign;   /* see tw_rescale_doubled */
} tw_mul_dsp;

/* The output may alias an operand of its shape. */
TW_DECLARE_BINARY_FORMS(tw_mul_s8_dsp, tw_mul_dsp);

/* int16 mul; the zero points are 0. */
void tw_mul_s16_dsp(const tw_mul_dsp *p, const void *a, const void *b, void *out);

/* The smaller or the larger of two int8 operands with broadcasting. The output may alias an operand of its shape. */
TW_DECLARE_BINARY_FORMS(tw_extremum_s8_dsp, tw_extremum);

#endif
