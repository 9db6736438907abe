/* tw_conv_compact.c - the loops of compact convolutions, portable C. */
#include "tw_conv_compact.h"

void tw_conv_compact(const tw_conv *p, const tw_view *in, const tw_view *out, tw_range range, int32_t filter, int32_t tap)
{
    const int32_t depth = p->in.c / p->groups, filters = p->out.c / p->groups;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            for (int32_t channel = 0; channel < p->out.c; ++channel) {
                const int8_t *weights = p->weights + channel * filter;
                int32_t sum = 0;
                for (int32_t row = 0; row < p->kernel.h; ++row) {
                    const int32_t in_y = y * p->stride.h - p->pad.h + row * p->dilation.h;
                    for (int32_t col = 0; col < p->kernel.w; ++col, weights += tap) {
                        const int32_t in_x = x * p->stride.w - p->pad.w + col * p->dilation.w;
                        if (tw_is_in(in_y, p->in.h) && tw_is_in(in_x, p->in.w)) {
                            const int8_t *from = (const int8_t *)tw_pixel(in, in_y, in_x, p->in.c) + channel / filters * depth;
                            for (int32_t i = 0; i < depth; ++i) {
                                sum += (from[i] - p->in_zero) * weights[i];
                            }
                        }
                    }
                }
                tw_conv_finish(p, channel, &sum, 1, (int8_t *)tw_pixel(out, y, x, p->out.c) + channel);
            }
        }
    }
}
