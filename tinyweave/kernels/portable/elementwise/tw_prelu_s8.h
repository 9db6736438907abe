/* tw_prelu_s8.h - int8 leaky relu whose slope is an operand with broadcasting, portable C. */
#ifndef TW_PRELU_S8_H
#define TW_PRELU_S8_H

#include "tw.h"

typedef struct {
    tw_extents a, b, out;                           /* the input and the slopes; each axis of b is that of out, or 1 */
    int32_t a_zero, b_zero, out_zero;               /* zero points */
    int32_t positive_multiplier, positive_shift;    /* of the input; Q31, a positive shift goes left */
    int32_t negative_multiplier, negative_shift;    /* of its product with the slope */
} tw_prelu;

/* Needs no scratch; out may lie over an operand of the same extents. */
void tw_prelu_s8(const tw_prelu *p, const void *a, const void *b, void *out);

/* The same for a range of tw_fold(out), from and to parts of maps. */
void tw_prelu_s8_part(const tw_prelu *p, tw_view a, tw_view b, tw_view out, tw_range range);

#endif
