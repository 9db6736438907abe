/* tw_conv_2d_s4.c - int4 convolution with int4 weights, portable C. */
#include "tw_conv.h"

#include "tw_conv_2d.h"
#include "tw_dot_s4.h"

TW_FORMS(tw_conv_2d_s4, tw_conv, tw_whole_s4(in, p->in), tw_whole_s4(out, p->out), p->out,
         tw_conv_2d_over(p, in, out, range, 4, 4, 0, tw_dot_s4, tw_conv_finish_s4))
