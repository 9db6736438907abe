/* tw_add.h - the parameters of a sum or difference with broadcasting, of int8 or int4 values. */
#ifndef TW_ADD_H
#define TW_ADD_H

#include "tw.h"

typedef struct {
    tw_extents a, b, out;              /* each axis of a and b is that of out, or 1 */
    int32_t a_zero, b_zero, out_zero;  /* zero points */
    int32_t out_min, out_max;          /* the clamp of the fused activation, within the type of the output */
    int32_t left_shift;                /* of both operands before they are rescaled, 20 */
    int32_t a_multiplier, a_shift;     /* Q31; a positive shift goes left */
    int32_t b_multiplier, b_shift;     /* a negative multiplier computes a - b */
    int32_t out_multiplier, out_shift;
} tw_add;

/* The sum of two elements. */
static inline int32_t tw_add_element(const tw_add *p, int32_t a, int32_t b)
{
    const int32_t scaled_a = tw_requantize(tw_shift_left(a - p->a_zero, p->left_shift), p->a_multiplier, p->a_shift);
    const int32_t scaled_b = tw_requantize(tw_shift_left(b - p->b_zero, p->left_shift), p->b_multiplier, p->b_shift);
    const int32_t scaled = tw_requantize(scaled_a + scaled_b, p->out_multiplier, p->out_shift);
    return tw_clamp(scaled, p->out_min - p->out_zero, p->out_max - p->out_zero) + p->out_zero;
}

/* The kernels. A _part form computes a range of the output, from and to parts of maps. */

/* int8 sum or difference with broadcasting. Needs no scratch; out may lie over an operand of the same extents. */
void tw_add_s8(const tw_add *p, const void *a, const void *b, void *out);
void tw_add_s8_part(const tw_add *p, tw_view a, tw_view b, tw_view out, tw_range range);

/* int4 sum or difference with broadcasting. Needs no scratch; out may lie over an operand of the same extents. */
void tw_add_s4(const tw_add *p, const void *a, const void *b, void *out);
void tw_add_s4_part(const tw_add *p, tw_view a, tw_view b, tw_view out, tw_range range);

/* int16 sum or difference with broadcasting. As tw_add_s8, zero points and clamps being those of int16. Needs no scratch; out
 * may lie over an operand of its extents. */
void tw_add_s16(const tw_add *p, const void *a, const void *b, void *out);

#endif
