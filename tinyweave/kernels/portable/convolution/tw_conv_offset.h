/* tw_conv_offset.h - the parameters of an int8 convolution whose weights have a zero point. */
#ifndef TW_CONV_OFFSET_H
#define TW_CONV_OFFSET_H

#include "tw_conv.h"

typedef struct {
    tw_conv conv;
    int32_t weights_zero;  /* the weights' zero point */
} tw_conv_offset;

/* The kernels. A _part form computes a range of the output, from and to parts of maps. */

/* int8 convolution whose weights have a zero point, as models that were uint8 have.
 * weights: [out.c][kernel.h][kernel.w][in.c / groups]. Needs no scratch. */
void tw_conv_2d_s8_offset(const tw_conv_offset *p, const void *in, void *out);
void tw_conv_2d_s8_offset_part(const tw_conv_offset *p, tw_view in, tw_view out, tw_range range);

/* int8 depthwise convolution whose weights have a zero point.
 * weights: [kernel.h][kernel.w][out.c]. Needs no scratch. */
void tw_depthwise_conv_2d_s8_offset(const tw_conv_offset *p, const void *in, void *out);
void tw_depthwise_conv_2d_s8_offset_part(const tw_conv_offset *p, tw_view in, tw_view out, tw_range range);

#endif
