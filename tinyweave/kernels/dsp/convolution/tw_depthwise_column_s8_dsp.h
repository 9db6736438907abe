/* tw_depthwise_column_s8_dsp.h - int8 depthwise convolution along maps of one column with the Arm DSP extension. */
#ifndef TW_DEPTHWISE_COLUMN_S8_DSP_H
#define TW_DEPTHWISE_COLUMN_S8_DSP_H

#include "tw_depthwise_conv_2d_s8_dsp.h"

/* The parameters are those of the maps as rows, which their bytes equal; so there is no form for a range of rows. */
void tw_depthwise_column_s8_dsp(const tw_depthwise_dsp *p, const void *in, void *out, void *scratch);

#endif
