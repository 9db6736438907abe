/* tw_binary_mve.h - elementwise int8 ops on two operands with broadcasting with the Arm MVE extension. No kernel needs scratch.
 * The output may alias an operand of the same extents. */
#ifndef TW_BINARY_MVE_H
#define TW_BINARY_MVE_H

#include "tw_binary.h"

/* multiplier: 0 or positive; shift: -31 .. 0. */
TW_DECLARE_BINARY_FORMS(tw_mul_s8_mve, tw_mul);

/* The smaller or the larger of two elements. */
TW_DECLARE_BINARY_FORMS(tw_extremum_s8_mve, tw_extremum);

#endif
