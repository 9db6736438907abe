/* tw_depthwise_lean_m7.h - int8 depthwise convolution without working memory, in the order that suits a Cortex-M7. */
#ifndef TW_DEPTHWISE_LEAN_M7_H
#define TW_DEPTHWISE_LEAN_M7_H

#include "tw_depthwise_lean_dsp.h"

/* tw_taps_outputs, as those without _m7. */
tw_taps_outputs tw_taps_3_1_m7, tw_taps_3_2_m7, tw_taps_5_1_m7, tw_taps_5_2_m7, tw_taps_7_1_m7, tw_taps_7_2_m7;

/* As the kernels of tw_depthwise_lean_dsp.h. A _part form computes a range of the output, from and to parts of maps. */
void tw_depthwise_3x3_s8_lean_m7(const tw_depthwise_lean_dsp *p, const void *in, void *out);
void tw_depthwise_3x3_s8_lean_m7_part(const tw_depthwise_lean_dsp *p, tw_view in, tw_view out, tw_range range);
void tw_depthwise_5x5_s8_lean_m7(const tw_depthwise_lean_dsp *p, const void *in, void *out);
void tw_depthwise_5x5_s8_lean_m7_part(const tw_depthwise_lean_dsp *p, tw_view in, tw_view out, tw_range range);
void tw_depthwise_7x7_s8_lean_m7(const tw_depthwise_lean_dsp *p, const void *in, void *out);
void tw_depthwise_7x7_s8_lean_m7_part(const tw_depthwise_lean_dsp *p, tw_view in, tw_view out, tw_range range);

#endif
