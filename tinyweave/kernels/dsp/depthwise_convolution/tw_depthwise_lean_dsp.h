/* tw_depthwise_lean_dsp.h - int8 depthwise convolutions with the Arm DSP extension and without scratch: dilation 1, depth
 * multiplier 1, at least four channels, horizontal stride 1 or 2. Kernels that end in _m7 are scheduled for a Cortex-M7. */
#ifndef TW_DEPTHWISE_LEAN_DSP_H
#define TW_DEPTHWISE_LEAN_DSP_H

#include "tw_conv_dsp.h"
#include "tw_taps.h"

typedef struct {
    tw_conv_dsp base;        /* stream: tw_taps.h */
    tw_taps_outputs *taps;   /* the function for the window size and stride */
    const int8_t *padding;   /* in.c bytes of the input's zero point; NULL if no window reaches into padding */
} tw_depthwise_lean_dsp;

/* Each kernel has a form for whole maps and, with suffix _part, one for a range of the output between views. Four channels of
 * two outputs of a row, or of its odd last output, are read before they are written. The last four channels may overlap those
 * before. */
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

/* The same along maps of one column, with windows one column wide of any height and any vertical stride. Two outputs are read
 * before they are written if their windows are inside the map and a row apart. */
void tw_depthwise_column_s8_dsp(const tw_conv_dsp *p, const void *in, void *out);
void tw_depthwise_column_s8_dsp_part(const tw_conv_dsp *p, tw_view in, tw_view out, tw_range range);

/* Reduces a map of one column to one pixel without padding, as streaming calls do that add a row. The window has any height.
 * Four channels are read before they are written. */
void tw_depthwise_pixel_s8_dsp(const tw_conv_dsp *p, const void *in, void *out);

#endif
