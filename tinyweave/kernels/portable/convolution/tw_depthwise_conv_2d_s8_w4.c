/* tw_depthwise_conv_2d_s8_w4.c - depthwise convolution of int8 maps with int4 weights, portable C. */
#include "tw_conv.h"

#include "tw_depthwise_conv_2d.h"
#include "tw_int4.h"

TW_FORMS(tw_depthwise_conv_2d_s8_w4, tw_conv, tw_whole(in, p->shape.in), tw_whole(out, p->shape.out), p->shape.out,
         tw_depthwise_over(p, in, out, range, 2, tw_int4))
