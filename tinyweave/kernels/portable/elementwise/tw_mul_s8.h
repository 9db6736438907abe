/* tw_mul_s8.h - int8 product with broadcasting, portable C. */
#ifndef TW_MUL_S8_H
#define TW_MUL_S8_H

#include "tw.h"

typedef struct {
    tw_extents a, b, out;              /* each axis of a and b is that of out, or 1 */
    int32_t a_zero, b_zero, out_zero;  /* zero points */
    int32_t out_min, out_max;          /* the clamp of the fused activation, within -128 .. 127 */
    int32_t multiplier, shift;         /* of the product; Q31, a positive shift goes left */
} tw_mul;

/* Needs no scratch; out may lie over an operand of the same extents. */
void tw_mul_s8(const tw_mul *p, const void *a, const void *b, void *out);

/* The same for a range of tw_fold(out), from and to parts of maps. */
void tw_mul_s8_part(const tw_mul *p, tw_view a, tw_view b, tw_view out, tw_range range);

#endif
