/* tw_conv_2d_s8_w4_dsp.h - convolution of int8 maps with int4 weights, with the Arm DSP extension: dense, not dilated. */
#ifndef TW_CONV_2D_S8_W4_DSP_H
#define TW_CONV_2D_S8_W4_DSP_H

#include "tw_conv_dsp.h"

/* stream: as tw_pair_w4.h says, of inputs in the order of tw_conv_pairs.h, which also says how much scratch. */
void tw_conv_2d_s8_w4_dsp(const tw_conv_dsp *p, const void *in, void *out, void *scratch);

/* The same for a range of the output, from and to parts of maps. */
void tw_conv_2d_s8_w4_dsp_part(const tw_conv_dsp *p, tw_view in, tw_view out, tw_range range, void *scratch);

#endif
