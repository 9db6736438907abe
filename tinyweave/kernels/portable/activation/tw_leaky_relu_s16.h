/* tw_leaky_relu_s16.h - int16 with one slope from the zero point on and another below it, portable C. */
#ifndef TW_LEAKY_RELU_S16_H
#define TW_LEAKY_RELU_S16_H

#include "tw.h"

typedef struct {
    tw_shape shape;                               /* of input and output */
    int32_t in_zero, out_zero;                    /* zero points */
    int32_t positive_multiplier, positive_shift;  /* Q31; a positive shift goes left */
    int32_t negative_multiplier, negative_shift;
} tw_leaky_relu;

/* Needs no scratch; out may lie over in. */
void tw_leaky_relu_s16(const tw_leaky_relu *p, const void *in, void *out);

/* The same for a range, from and to parts of maps. */
void tw_leaky_relu_s16_part(const tw_leaky_relu *p, tw_view in, tw_view out, tw_range range);

#endif
