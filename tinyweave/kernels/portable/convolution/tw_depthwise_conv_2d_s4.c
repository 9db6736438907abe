/* tw_depthwise_conv_2d_s4.c - int4 depthwise convolution with int4 weights, portable C. */
#include "tw_conv.h"

#include "tw_depthwise_conv_2d.h"

TW_FORMS(tw_depthwise_conv_2d_s4, tw_conv, tw_whole_s4(in, p->in), tw_whole_s4(out, p->out), p->out,
         tw_depthwise_over(p, in, out, range, 4, 4, tw_conv_finish_s4))
