/* tw_conv_dsp.h - the parameters of an int8 convolution whose weights are one stream, for the Arm DSP extension. */
#ifndef TW_CONV_DSP_H
#define TW_CONV_DSP_H

#include "tw_conv.h"

typedef struct {
    tw_conv conv;            /* without weights, bias, multiplier and shift: `stream` holds them */
    const uint32_t *stream;  /* read forward, in the order that the kernel's header says */
    int32_t sign;            /* -1: rescaling must round negative halves away from zero; 0: all that is negative is clamped */
} tw_conv_dsp;

#endif
