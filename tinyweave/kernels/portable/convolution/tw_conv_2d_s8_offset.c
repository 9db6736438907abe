/* tw_conv_2d_s8_offset.c - int8 convolution whose weights have a zero point, portable C. */
#include "tw_conv.h"

#include "tw_conv_2d.h"
#include "tw_dot.h"

TW_FORMS(tw_conv_2d_s8_offset, tw_conv_offset, tw_whole(in, p->conv.shape.in), tw_whole(out, p->conv.shape.out), p->conv.shape.out,
         tw_conv_2d_over(&p->conv, in, out, range, tw_conv_filter(&p->conv), p->weights_zero, tw_dot_s8))
