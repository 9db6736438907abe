/* tw_depthwise_conv_2d_s8.c - int8 depthwise convolution, portable C: the specification of every faster variant.
 *
 * Window positions outside the map are skipped, which equals padding with the input's zero point. Without a depth
 * multiplier four neighbouring channels are summed at once.
 */
#include "tw_depthwise_conv_2d_s8.h"

/* The part of one output pixel's window that lies inside the map. */
typedef struct {
    int32_t top, left;   /* the map row and column of tap (0, 0) */
    tw_span rows, cols;  /* taps */
} window;

/* Four channels from `channel` on, depth multiplier 1. */
static void add_products4(const tw_conv *p, const tw_view *in, const window *at, int32_t channel, int32_t *sums)
{
    const int32_t step = p->dilation.w * p->in.c, zero = p->in_zero;
    int32_t sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
    for (int32_t ky = at->rows.begin; ky < at->rows.end; ++ky) {
        const int32_t col = at->left + at->cols.begin * p->dilation.w;
        const int8_t *x = (const int8_t *)tw_pixel(in, at->top + ky * p->dilation.h, col, p->in.c) + channel;
        const int8_t *taps = p->weights + (ky * p->kernel.w + at->cols.begin) * p->out.c + channel;
        for (int32_t kx = at->cols.begin; kx < at->cols.end; ++kx) {
            sum0 += (x[0] - zero) * taps[0];
            sum1 += (x[1] - zero) * taps[1];
            sum2 += (x[2] - zero) * taps[2];
            sum3 += (x[3] - zero) * taps[3];
            x += step;
            taps += p->out.c;
        }
    }
    sums[0] = sum0;
    sums[1] = sum1;
    sums[2] = sum2;
    sums[3] = sum3;
}

/* One output channel of the input channel `channel_in`. */
static int32_t products(const tw_conv *p, const tw_view *in, const window *at, int32_t channel_in, int32_t channel)
{
    const int32_t step = p->dilation.w * p->in.c;
    int32_t sum = 0;
    for (int32_t ky = at->rows.begin; ky < at->rows.end; ++ky) {
        const int32_t col = at->left + at->cols.begin * p->dilation.w;
        const int8_t *x = (const int8_t *)tw_pixel(in, at->top + ky * p->dilation.h, col, p->in.c) + channel_in;
        const int8_t *taps = p->weights + (ky * p->kernel.w + at->cols.begin) * p->out.c + channel;
        for (int32_t kx = at->cols.begin; kx < at->cols.end; ++kx) {
            sum += (*x - p->in_zero) * *taps;
            x += step;
            taps += p->out.c;
        }
    }
    return sum;
}

static int8_t rescale(const tw_conv *p, int32_t channel, int32_t sum)
{
    const int32_t scaled = tw_requantize(tw_add_bias(sum, p->bias, channel), p->multiplier[channel], p->shift[channel]);
    return (int8_t)(tw_clamp(scaled, p->out_min - p->out_zero, p->out_max - p->out_zero) + p->out_zero);
}

void tw_depthwise_conv_2d_s8(const tw_conv *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t depth_multiplier = p->out.c / p->in.c;
    const int32_t fours = depth_multiplier == 1 ? p->out.c / 4 * 4 : 0;

    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, p->out.c);
        window at;
        at.top = y * p->stride.h - p->pad.h;
        at.rows = tw_inside(at.top, p->kernel.h, p->dilation.h, p->in.h);
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            at.left = x * p->stride.w - p->pad.w;
            at.cols = tw_inside(at.left, p->kernel.w, p->dilation.w, p->in.w);
            int32_t channel = 0;
            while (channel < fours) {
                int32_t sums[4];
                add_products4(p, &in, &at, channel, sums);
                for (int32_t i = 0; i < 4; ++i, ++channel) {
                    *to++ = rescale(p, channel, sums[i]);
                }
            }
            /* the rest, or with a depth multiplier all */
            for (int32_t channel_in = channel; channel_in < p->in.c; ++channel_in) {
                for (int32_t i = 0; i < depth_multiplier; ++i, ++channel) {
                    *to++ = rescale(p, channel, products(p, &in, &at, channel_in, channel));
                }
            }
        }
    }
}
