/* tw_depthwise_conv_2d_s8.c - int8 depthwise convolution, portable C: the specification of every faster variant. */
#include "tw_conv.h"

#include "tw_depthwise_conv_2d.h"

TW_FORMS(tw_depthwise_conv_2d_s8, tw_conv, tw_whole(in, p->shape.in), tw_whole(out, p->shape.out), p->shape.out,
         tw_depthwise_over(p, in, out, range, 1, tw_int8))
