/* tw_depthwise_conv_2d_s8.h - int8 depthwise convolution, portable C. */
#ifndef TW_DEPTHWISE_CONV_2D_S8_H
#define TW_DEPTHWISE_CONV_2D_S8_H

#include "tw_conv.h"

/* weights: [kernel.h][kernel.w][out.c]; output channel k reads input channel k / (out.c / in.c). Needs no scratch. */
void tw_depthwise_conv_2d_s8(const tw_conv *p, const void *in, void *out);

/* The same for a range of the output, from and to parts of maps. */
void tw_depthwise_conv_2d_s8_part(const tw_conv *p, tw_view in, tw_view out, tw_range range);

#endif
