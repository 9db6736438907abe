/* tw_conv_2d_s8_compact.c - int8 convolution with little code, portable C. */
#include "tw_conv.h"

#include "tw_conv_compact.h"

TW_FORMS(tw_conv_2d_s8_compact, tw_conv, tw_whole(in, p->shape.in), tw_whole(out, p->shape.out), p->shape.out,
         tw_conv_compact(p, &in, &out, range, tw_conv_filter(p), p->shape.in.c / p->groups))
