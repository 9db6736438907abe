/* tw_depthwise_3x3_s8_m7.c - int8 depthwise convolution 3x3 in the order that suits a Cortex-M7. */
#include "tw_depthwise_3x3_s8_m7.h"

void tw_depthwise_3x3_s8_m7_part(const tw_depthwise_dsp *p, tw_view in, tw_view out, tw_range range, void *scratch)
{
    tw_depthwise_conv_2d_s8_dsp_part(p, in, out, range, scratch);
}

void tw_depthwise_3x3_s8_m7(const tw_depthwise_dsp *p, const void *in, void *out, void *scratch)
{
    tw_depthwise_conv_2d_s8_dsp(p, in, out, scratch);
}
