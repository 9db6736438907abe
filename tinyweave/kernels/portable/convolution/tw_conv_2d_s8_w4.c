/* tw_conv_2d_s8_w4.c - convolution of int8 maps with int4 weights, portable C: the specification of every faster variant. */
#include "tw_conv.h"

#include "tw_conv_2d.h"
#include "tw_dot_w4.h"

TW_FORMS(tw_conv_2d_s8_w4, tw_conv, tw_whole(in, p->shape.in), tw_whole(out, p->shape.out), p->shape.out,
         tw_conv_2d_over(p, in, out, range, tw_int4_bytes(tw_conv_filter(p)), 0, tw_dot_w4))
