/* tw_conv_mve.h - int8 convolutions with the Arm MVE extension. A _part form computes a range of the output between views. */
#ifndef TW_CONV_MVE_H
#define TW_CONV_MVE_H

#include "tw_conv.h"

/* Whether a convolution computes a column of pixels from a column of pixels. */
static inline int tw_conv_is_column(const tw_conv_shape *p)
{
    return p->in.w == 1 && p->out.w == 1 && p->kernel.w == 1 && p->out.h > 1;
}

/* Turns a convolution over a column into the one over a row with the same bytes, whose neighbouring windows run together. */
static inline void tw_conv_turn_column(tw_conv_shape *p)
{
    const tw_shape in = {1, p->in.h, p->in.c}, out = {1, p->out.h, p->out.c};
    const tw_size kernel = {1, p->kernel.h}, stride = {1, p->stride.h}, dilation = {1, p->dilation.h}, pad = {p->pad.w, p->pad.h};
    p->in = in;
    p->out = out;
    p->kernel = kernel;
    p->stride = stride;
    p->dilation = dilation;
    p->pad = pad;
}

/* conv_2d: one group, dilation 1. */
typedef struct {
    tw_conv_shape conv;
    const uint32_t *stream;  /* layout: tw_mve_pair.h */
    int32_t sign;            /* see tw_mve_layer */
    int32_t windows;         /* windows that the scratch holds, an even number */
} tw_conv_mve;

/* scratch: the im2col buffer, `windows` windows, each rounded up to 16 bytes. Two 1x1 windows are read again for each four
 * filters, whose outputs are then written. Other windows are gathered before their outputs are written. */
TW_DECLARE_SCRATCH_FORMS(tw_conv_2d_s8_mve, tw_conv_mve);

/* depthwise_conv_2d with depth multiplier 1, sixteen channels at a time. For maps of 1, 2, 4 or 8 channels and a horizontal
 * stride of 1, sixteen neighbouring values are whole pixels; the stream then repeats the channels. */
typedef struct {
    tw_conv_shape conv;
    const uint32_t *stream;  /* layout: tw_mve_taps.h */
    int32_t sign;            /* see tw_mve_taps */
} tw_depthwise_mve;

/* scratch, aligned to words: a pixel of zero points, rounded up to 16 bytes; an offset per tap, and three words more. All inputs
 * of sixteen outputs are read before they are written. */
TW_DECLARE_SCRATCH_FORMS(tw_depthwise_conv_2d_s8_mve, tw_depthwise_mve);

#endif
