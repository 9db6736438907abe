/* tw_add_s8_mve.h - int8 add or sub of two maps of one shape with the Arm MVE extension.
 *
 * TFLite rescales the operand with the larger scale by exactly 1/2: it is `plain`, the other operand is `scaled`.
 */
#ifndef TW_ADD_S8_MVE_H
#define TW_ADD_S8_MVE_H

#include "tw_binary.h"

typedef struct {
    tw_shape shape;
    int32_t plain_zero, scaled_zero, out_zero;  /* zero points */
    int32_t out_min, out_max;                   /* the fused activation's clamp, within -128 .. 127 */
    int32_t multiplier, shift;                  /* of `scaled`: Q31, negative for sub; -31 .. 0 */
    int32_t out_multiplier, out_shift;          /* Q31; -31 .. -1 */
} tw_add_mve;

/* No scratch. The output may alias an operand. */
void tw_add_s8_mve(const tw_add_mve *p, const void *plain, const void *scaled, void *out);

/* The kernel for a range of the output between views. */
void tw_add_s8_mve_part(const tw_add_mve *p, tw_view plain, tw_view scaled, tw_view out, tw_range range);

#endif
