/* tw_conv_2d_s8_compact.c - int8 convolution with little code, portable C. */
#include "tw_conv.h"

#include "tw_conv_compact.h"

TW_FORMS(tw_conv_2d_s8_compact, tw_conv, tw_whole(in, p->in), tw_whole(out, p->out), p->out,
         tw_conv_compact(p, &in, &out, range, p->kernel.h * p->kernel.w * (p->in.c / p->groups), p->in.c / p->groups))
