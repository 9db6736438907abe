/* tw_depthwise_conv_2d_s8_offset.c - int8 depthwise convolution whose weights have a zero point, portable C. */
#include "tw_conv.h"

#include "tw_depthwise_conv_2d.h"

void tw_depthwise_conv_2d_s8_offset_part(const tw_conv_offset *p, tw_view in, tw_view out, tw_range range)
{
    tw_depthwise_over(&p->conv, in, out, range, 8, 8, p->weights_zero, 1, tw_conv_finish_s8);
}

TW_WHOLE_FORM(tw_depthwise_conv_2d_s8_offset, tw_conv_offset, tw_whole(in, p->conv.in), tw_whole(out, p->conv.out), p->conv.out)
