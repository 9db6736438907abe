/* tw_l2_normalization_s8.h - each channel of a pixel, divided by the root of the sum of their squares. */
#ifndef TW_L2_NORMALIZATION_S8_H
#define TW_L2_NORMALIZATION_S8_H

#include "tw.h"

typedef struct {
    tw_shape shape;   /* of input and output; c <= 8192 */
    int32_t in_zero;  /* zero point */
} tw_l2_normalization;

/* The output's scale is 1/128, its zero point 0. No scratch; out may alias in. */
TW_DECLARE_FORMS(tw_l2_normalization_s8, tw_l2_normalization);

#endif
