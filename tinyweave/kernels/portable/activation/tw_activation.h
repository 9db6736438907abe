/* tw_activation.h - functions of one element. A _part form computes a range between views. */
#ifndef TW_ACTIVATION_H
#define TW_ACTIVATION_H

#include "tw.h"

/* Any function of one int8 element, by table. */
typedef struct {
    tw_shape shape;       /* of input and output */
    const int8_t *table;  /* [256]: the results for -128 .. 127, in this order */
} tw_lookup;

/* No scratch; out may alias in. */
void tw_lookup_s8(const tw_lookup *p, const void *in, void *out);
void tw_lookup_s8_part(const tw_lookup *p, tw_view in, tw_view out, tw_range range);

/* int16 with one slope from the zero point on and another below it. */
typedef struct {
    tw_shape shape;                               /* of input and output */
    int32_t in_zero, out_zero;                    /* zero points */
    int32_t positive_multiplier, positive_shift;  /* Q31; a positive shift goes left */
    int32_t negative_multiplier, negative_shift;
} tw_leaky_relu;

/* No scratch; out may alias in. */
void tw_leaky_relu_s16(const tw_leaky_relu *p, const void *in, void *out);
void tw_leaky_relu_s16_part(const tw_leaky_relu *p, tw_view in, tw_view out, tw_range range);

#endif
