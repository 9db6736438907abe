/* tw_depthwise_lean_dsp.h - int8 depthwise convolution with the Arm DSP extension and without working memory: not dilated,
 * depth multiplier 1, at least four channels; of a size with stride 1 or 2 along rows, those that end in _m7 in the order
 * that suits a Cortex-M7. */
#ifndef TW_DEPTHWISE_LEAN_DSP_H
#define TW_DEPTHWISE_LEAN_DSP_H

#include "tw_conv_dsp.h"
#include "tw_taps.h"

typedef struct {
    tw_conv_dsp base;        /* the stream as tw_taps.h says */
    tw_taps_outputs *taps;   /* that of the kernel's size and stride */
    const int8_t *padding;   /* in.c bytes of the input's zero point; NULL where no window meets padding */
} tw_depthwise_lean_dsp;

/* The kernels. Of two outputs of a row, from its begin on, or of the last one, four channels are read before they are
 * written; the last four may be some of those before again. A _part form computes a range of the output, from and to parts
 * of maps. */
void tw_depthwise_3x3_s8_lean_dsp(const tw_depthwise_lean_dsp *p, const void *in, void *out);
void tw_depthwise_3x3_s8_lean_dsp_part(const tw_depthwise_lean_dsp *p, tw_view in, tw_view out, tw_range range);
void tw_depthwise_5x5_s8_lean_dsp(const tw_depthwise_lean_dsp *p, const void *in, void *out);
void tw_depthwise_5x5_s8_lean_dsp_part(const tw_depthwise_lean_dsp *p, tw_view in, tw_view out, tw_range range);
void tw_depthwise_7x7_s8_lean_dsp(const tw_depthwise_lean_dsp *p, const void *in, void *out);
void tw_depthwise_7x7_s8_lean_dsp_part(const tw_depthwise_lean_dsp *p, tw_view in, tw_view out, tw_range range);
void tw_depthwise_3x3_s8_lean_m7(const tw_depthwise_lean_dsp *p, const void *in, void *out);
void tw_depthwise_3x3_s8_lean_m7_part(const tw_depthwise_lean_dsp *p, tw_view in, tw_view out, tw_range range);
void tw_depthwise_5x5_s8_lean_m7(const tw_depthwise_lean_dsp *p, const void *in, void *out);
void tw_depthwise_5x5_s8_lean_m7_part(const tw_depthwise_lean_dsp *p, tw_view in, tw_view out, tw_range range);
void tw_depthwise_7x7_s8_lean_m7(const tw_depthwise_lean_dsp *p, const void *in, void *out);
void tw_depthwise_7x7_s8_lean_m7_part(const tw_depthwise_lean_dsp *p, tw_view in, tw_view out, tw_range range);

/* Of a map of one column to one pixel, as a call that adds a row to a stream has it, without padding. stream: as tw_taps.h
 * says, of a window of any height. Four channels are read before they are written; the last four may be some of those before
 * again. */
void tw_depthwise_pixel_s8_dsp(const tw_conv_dsp *p, const void *in, void *out);

#endif
