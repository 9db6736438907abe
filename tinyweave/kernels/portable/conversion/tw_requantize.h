/* tw_requantize.h - one-byte integers to one-byte integers of another scale, with a clamp: quantize, relu, relu6. */
#ifndef TW_REQUANTIZE_H
#define TW_REQUANTIZE_H

#include "tw.h"

typedef struct {
    tw_shape shape;             /* of input and output */
    int32_t in_zero, out_zero;  /* zero points */
    int32_t out_min, out_max;   /* the clamp, within the type of the output */
    int32_t multiplier, shift;  /* Q31; a positive shift goes left */
} tw_requantization;

static inline int32_t tw_requantize_element(const tw_requantization *p, int32_t x)
{
    const int32_t scaled = tw_requantize(x - p->in_zero, p->multiplier, p->shift);
    return tw_clamp(scaled, p->out_min - p->out_zero, p->out_max - p->out_zero) + p->out_zero;
}

#endif
