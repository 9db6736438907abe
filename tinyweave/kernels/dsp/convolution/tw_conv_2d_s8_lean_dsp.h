/* tw_conv_2d_s8_lean_dsp.h - int8 convolution with the Arm DSP extension and without working memory: dense, not dilated, of pixels
 * of whole words, at most TW_CONV_LEAN_MOST_ROWS rows of the kernel. */
#ifndef TW_CONV_2D_S8_LEAN_DSP_H
#define TW_CONV_2D_S8_LEAN_DSP_H

#include "tw_conv_dsp.h"

#define TW_CONV_LEAN_MOST_ROWS 7

typedef struct {
    tw_conv_dsp base;       /* the stream as tw_pair_s8.h says, of inputs row by row */
    const int8_t *padding;  /* kernel.w * in.c bytes of the input's zero point; NULL where no window meets padding */
} tw_conv_lean_dsp;

/* The window of a pixel is read for every four of its outputs, then once for the rest. */
void tw_conv_2d_s8_lean_dsp(const tw_conv_lean_dsp *p, const void *in, void *out);

/* The same for a range of the output, from and to parts of maps. */
void tw_conv_2d_s8_lean_dsp_part(const tw_conv_lean_dsp *p, tw_view in, tw_view out, tw_range range);

#endif
