/* tw_conv_2d_s8.c - int8 convolution, portable C: the specification of every faster variant.
 *
 * Window positions outside the map are skipped, which equals padding with the input's zero point. Four output channels
 * share each input; where the taps of a window's row lie together, they are one run.
 */
#include "tw_conv_2d_s8.h"

#include "tw_dot.h"

/* The part of one output pixel's window that lies inside the map. */
typedef struct {
    int32_t depth, filter; /* input channels of a group; elements of a filter */
    int32_t top, left;     /* the map row and column of tap (0, 0) */
    tw_span rows, cols;    /* taps */
    int32_t run, runs;     /* per tap row: how many elements lie together, and how often */
} window;

/* sums += the products of a window with `count` filters, 1 or 4, for the input channels from `first_in`. */
static void add_products(const tw_conv *p, const tw_view *in, const window *at, int32_t first_in, const int8_t *weights,
                         int32_t count, int32_t *sums)
{
    const int32_t step = p->dilation.w * p->in.c;
    for (int32_t ky = at->rows.begin; ky < at->rows.end; ++ky) {
        const int32_t col = at->left + at->cols.begin * p->dilation.w;
        const int8_t *x = (const int8_t *)tw_pixel(in, at->top + ky * p->dilation.h, col, p->in.c) + first_in;
        const int8_t *taps = weights + (ky * p->kernel.w + at->cols.begin) * at->depth;
        for (int32_t i = 0; i < at->runs; ++i) {
            if (count == 4) {
                tw_dot4(x, p->in_zero, taps, at->filter, at->run, sums);
            } else {
                *sums += tw_dot1(x, p->in_zero, taps, at->run);
            }
            x += step;
            taps += at->depth;
        }
    }
}

static int8_t rescale(const tw_conv *p, int32_t channel, int32_t sum)
{
    const int32_t scaled = tw_requantize(tw_add_bias(sum, p->bias, channel), p->multiplier[channel], p->shift[channel]);
    return (int8_t)(tw_clamp(scaled, p->out_min - p->out_zero, p->out_max - p->out_zero) + p->out_zero);
}

void tw_conv_2d_s8(const tw_conv *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t depth = p->in.c / p->groups;
    const int32_t group_out = p->out.c / p->groups;
    const int together = p->groups == 1 && p->dilation.w == 1;
    window at;
    at.depth = depth;
    at.filter = p->kernel.h * p->kernel.w * depth;

    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, p->out.c);
        at.top = y * p->stride.h - p->pad.h;
        at.rows = tw_inside(at.top, p->kernel.h, p->dilation.h, p->in.h);
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            at.left = x * p->stride.w - p->pad.w;
            at.cols = tw_inside(at.left, p->kernel.w, p->dilation.w, p->in.w);
            const int32_t taps = tw_max(at.cols.end - at.cols.begin, 0);
            at.run = together ? taps * depth : depth;
            at.runs = together ? 1 : taps;

            const int8_t *weights = p->weights;
            int32_t channel = 0;
            for (int32_t first_in = 0; first_in < p->in.c; first_in += depth) {
                const int32_t end = channel + group_out;
                while (channel < end) {
                    const int32_t count = end - channel >= 4 ? 4 : 1;
                    int32_t sums[4] = {0, 0, 0, 0};
                    add_products(p, &in, &at, first_in, weights, count, sums);
                    for (int32_t i = 0; i < count; ++i) {
                        *to++ = rescale(p, channel + i, sums[i]);
                    }
                    weights += count * at.filter;
                    channel += count;
                }
            }
        }
    }
}
