/* tw_binary_mve.h - elementwise int8 ops on two operands with broadcasting with the Arm MVE extension. No kernel needs scratch.
 * The output may alias an operand of the same extents. */
#ifndef TW_BINARY_MVE_H
#define TW_BINARY_MVE_H

#include "tw_binary.h"

/* multiplier: 0 or positive; shift: -31 .. 0. */
void tw_mul_s8_mve(const tw_mul *p, const void *a, const void *b, void *out);
void tw_mul_s8_mve_part(const tw_mul *p, tw_view a, tw_view b, tw_view out, tw_range range);

/* The smaller or the larger of two elements. */
void tw_extremum_s8_mve(const tw_extremum *p, const void *a, const void *b, void *out);
void tw_extremum_s8_mve_part(const tw_extremum *p, tw_view a, tw_view b, tw_view out, tw_range range);

#endif
