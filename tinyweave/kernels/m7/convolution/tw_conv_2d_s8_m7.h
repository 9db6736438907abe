/* tw_conv_2d_s8_m7.h - int8 convolution with the Arm DSP extension, in the order that suits a Cortex-M7. */
#ifndef TW_CONV_2D_S8_M7_H
#define TW_CONV_2D_S8_M7_H

#include "tw_conv_dsp.h"

/* As tw_conv_2d_s8_dsp, with its stream and its scratch. A _part form computes a range of the output, from and to parts of maps. */
void tw_conv_2d_s8_m7(const tw_conv_dsp *p, const void *in, void *out, void *scratch);
void tw_conv_2d_s8_m7_part(const tw_conv_dsp *p, tw_view in, tw_view out, tw_range range, void *scratch);

/* As tw_conv_2d_s8_copying_dsp. */
void tw_conv_2d_s8_copying_m7(const tw_conv_dsp *p, const void *in, void *out, void *scratch);

#endif
