/* tw_mul_s8_mve.h - int8 mul with broadcasting with the Arm MVE extension. */
#ifndef TW_MUL_S8_MVE_H
#define TW_MUL_S8_MVE_H

#include "tw_binary.h"

/* multiplier: 0 or positive; shift: -31 .. 0. No scratch. The output may alias an operand of the same extents. */
void tw_mul_s8_mve(const tw_mul *p, const void *a, const void *b, void *out);
void tw_mul_s8_mve_part(const tw_mul *p, tw_view a, tw_view b, tw_view out, tw_range range);

#endif
