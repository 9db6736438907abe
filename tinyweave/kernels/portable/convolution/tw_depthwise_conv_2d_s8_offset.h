/* tw_depthwise_conv_2d_s8_offset.h - int8 depthwise convolution whose weights have a zero point, portable C. */
#ifndef TW_DEPTHWISE_CONV_2D_S8_OFFSET_H
#define TW_DEPTHWISE_CONV_2D_S8_OFFSET_H

#include "tw_conv_offset.h"

/* weights: [kernel.h][kernel.w][out.c]. Needs no scratch. */
void tw_depthwise_conv_2d_s8_offset(const tw_conv_offset *p, const void *in, void *out);

/* The same for a range, from and to parts of maps. */
void tw_depthwise_conv_2d_s8_offset_part(const tw_conv_offset *p, tw_view in, tw_view out, tw_range range);

#endif
