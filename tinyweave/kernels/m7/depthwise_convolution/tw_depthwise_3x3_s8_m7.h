/* tw_depthwise_3x3_s8_m7.h - int8 depthwise convolution 3x3 in the order that suits a Cortex-M7. */
#ifndef TW_DEPTHWISE_3X3_S8_M7_H
#define TW_DEPTHWISE_3X3_S8_M7_H

#include "tw_depthwise_conv_2d_s8_dsp.h"
#include "tw_line_m7.h"

/* As tw_depthwise_conv_2d_s8_dsp, with a line of tw_line_m7.h. A _part form computes a range of the output, from and to parts of
 * maps. */
void tw_depthwise_3x3_s8_m7(const tw_depthwise_dsp *p, const void *in, void *out, void *scratch);
void tw_depthwise_3x3_s8_m7_part(const tw_depthwise_dsp *p, tw_view in, tw_view out, tw_range range, void *scratch);

#endif
