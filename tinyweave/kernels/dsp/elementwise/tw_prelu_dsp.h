/* tw_prelu_dsp.h - prelu with the Arm DSP extension. */
#ifndef TW_PRELU_DSP_H
#define TW_PRELU_DSP_H

#include "tw.h"

/* prelu with a constant slope per channel as linear functions, which equal TFLite's rescalings for all inputs:
 * (x - in_zero) * line[0] + line[1] >> shift, clamped to int8. */
typedef struct {
    tw_shape shape;           /* of input and output */
    int32_t in_zero, shift;   /* zero point; 1 .. 21 */
    int32_t positive[2];      /* line of inputs at or above the zero point */
    const int32_t *negative;  /* [c][2], line of each channel's inputs below it */
} tw_prelu_dsp;

/* Needs no scratch; out may alias in. */
TW_DECLARE_FORMS(tw_prelu_s8_dsp, tw_prelu_dsp);

#endif
