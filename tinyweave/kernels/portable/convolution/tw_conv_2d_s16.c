/* tw_conv_2d_s16.c - convolution of int16 maps, portable C: the specification of every faster variant. */
#include "tw_conv_s16.h"

/* The sum of one output channel; `in` is the first input channel of its group in the map's first pixel. */
static int64_t convolve(const tw_conv_s16_base *p, const int16_t *in, tw_size first, const int8_t *weights)
{
    const int32_t depth = p->in.c / p->groups;
    const tw_span rows = tw_inside(first.h, p->kernel.h, p->dilation.h, p->in.h);
    const tw_span cols = tw_inside(first.w, p->kernel.w, p->dilation.w, p->in.w);
    int64_t sum = 0;
    for (int32_t y = rows.begin; y < rows.end; ++y) {
        for (int32_t x = cols.begin; x < cols.end; ++x) {
            const int32_t pixel = (first.h + y * p->dilation.h) * p->in.w + first.w + x * p->dilation.w;
            sum += tw_dot_s16(in + pixel * p->in.c, weights + (y * p->kernel.w + x) * depth, depth);
        }
    }
    return sum;
}

void tw_conv_2d_s16(const tw_conv_s16 *conv, const void *in, void *out)
{
    const tw_conv_s16_base *const p = &conv->base;
    const int32_t depth = p->in.c / p->groups, group_out = p->out.c / p->groups;
    int16_t *to = (int16_t *)out;
    for (int32_t y = 0; y < p->out.h; ++y) {
        for (int32_t x = 0; x < p->out.w; ++x) {
            const tw_size first = {y * p->stride.h - p->pad.h, x * p->stride.w - p->pad.w};
            for (int32_t channel = 0; channel < p->out.c; ++channel) {
                const int16_t *from = (const int16_t *)in + channel / group_out * depth;
                const int64_t sum = convolve(p, from, first, p->weights + channel * p->kernel.h * p->kernel.w * depth);
                *to++ = tw_conv_finish_s16(conv, channel, sum);
            }
        }
    }
}
