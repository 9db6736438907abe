/* tw_softmax_s16.h - softmax of int16 from tables of exp and of a reciprocal with linear interpolation. */
#ifndef TW_SOFTMAX_S16_H
#define TW_SOFTMAX_S16_H

#include "tw.h"

typedef struct {
    tw_shape shape;             /* of input and output; c < 4096 */
    int32_t multiplier, shift;  /* from x - max to units of 10 / 65535; Q31, a positive shift goes left */
    const int16_t *exp;         /* [513]: exp(x) in Q15 for x = -10 .. 0 */
    const int16_t *reciprocal;  /* [513]: 1 / (1 + x) in Q15 for x = 0 .. 1 */
} tw_softmax_s16_tables;

/* int16 softmax over the channels of each pixel; the output's scale is 2^-15. No scratch; out may alias in. */
void tw_softmax_s16(const tw_softmax_s16_tables *p, const void *in, void *out);

#endif
