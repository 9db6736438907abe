/* tw_depthwise_conv_2d_s8_offset.c - int8 depthwise convolution whose weights have a zero point, portable C. */
#include "tw_conv.h"

#include "tw_depthwise_conv_2d.h"

void tw_depthwise_conv_2d_s8_offset_part(const tw_conv_offset *params, tw_view in, tw_view out, tw_range range)
{
    const tw_conv *p = &params->conv;
    const int32_t depth_multiplier = p->shape.out.c / p->shape.in.c, zero = params->weights_zero;

    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, p->shape.out.c);
        tw_window window = tw_window_of(&p->shape, &in, y, p->shape.in.c);
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            tw_window_cols(&p->shape, &window, x);
            int32_t channel = 0;
            for (int32_t channel_in = 0; channel_in < p->shape.in.c; ++channel_in) {
                for (int32_t i = 0; i < depth_multiplier; ++i, ++channel) {
                    const int32_t sum = tw_depthwise_one(p, &in, &window, channel_in, channel, zero, 1, tw_int8);
                    tw_conv_finish(p, channel, &sum, 1, to + channel);
                }
            }
            to += p->shape.out.c;
        }
    }
}

TW_WHOLE_FORM(tw_depthwise_conv_2d_s8_offset, tw_conv_offset, tw_whole(in, p->conv.shape.in), tw_whole(out, p->conv.shape.out), p->conv.shape.out)
