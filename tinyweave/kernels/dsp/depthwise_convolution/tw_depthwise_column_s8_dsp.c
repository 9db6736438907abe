/* tw_depthwise_column_s8_dsp.c - int8 depthwise convolution along maps of one column, taken as rows, with the Arm DSP
 * extension. */
#include "tw_depthwise_conv_2d_s8_dsp.h"

void tw_depthwise_column_s8_dsp(const tw_depthwise_dsp *p, const void *in, void *out, void *scratch)
{
    tw_depthwise_conv_2d_s8_dsp(p, in, out, scratch);
}
