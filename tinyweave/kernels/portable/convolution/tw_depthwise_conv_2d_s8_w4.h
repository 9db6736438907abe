/* tw_depthwise_conv_2d_s8_w4.h - depthwise convolution of int8 maps with int4 weights, portable C. */
#ifndef TW_DEPTHWISE_CONV_2D_S8_W4_H
#define TW_DEPTHWISE_CONV_2D_S8_W4_H

#include "tw_conv.h"

/* weights: [kernel.h][kernel.w][out.c], two to a byte, each tap in bytes of its own; output channel k reads input channel
 * k / (out.c / in.c). Needs no scratch. */
void tw_depthwise_conv_2d_s8_w4(const tw_conv *p, const void *in, void *out);

/* The same for a range of the output, from and to parts of maps. */
void tw_depthwise_conv_2d_s8_w4_part(const tw_conv *p, tw_view in, tw_view out, tw_range range);

#endif
