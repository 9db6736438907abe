/* tw_conv_2d.h - the loops of dense and grouped convolutions, portable C, for kernels that differ in how values lie in memory.
 *
 * Four output channels share each input; where the taps of a window's row lie together, they are one run. Inlined with
 * functions that are known, so that each kernel gets loops of its own.
 */
#ifndef TW_CONV_2D_H
#define TW_CONV_2D_H

#include "tw_conv.h"

/* sums += the products of a window, `depth` input channels from `first_in` on, with `filters` filters of `filter` bytes. */
TW_INLINE void tw_conv_2d_sum(const tw_conv *p, const tw_view *in, const tw_window *window, int32_t first_in, int32_t depth,
                              const int8_t *weights, int32_t filters, int32_t *sums, int32_t filter, tw_products *dot)
{
    const int together = p->groups == 1 && p->shape.dilation.w == 1;
    const int32_t run = together ? window->cols * depth : depth;
    const int32_t runs = together ? 1 : window->cols;
    int32_t row_first = window->tap * depth;
    int32_t offset = window->offset;

    for (int32_t row = 0; row < window->rows; ++row) {
        const int8_t *pixel = (const int8_t *)in->data + offset;
        int32_t first = row_first;
        for (int32_t i = 0; i < runs; ++i) {
            dot(pixel, first_in, p->shape.in_zero, weights, filter, first, run, filters, sums);
            pixel += p->shape.dilation.w * window->pixel;
            first += depth;
        }
        row_first += p->shape.kernel.w * depth;
        offset = tw_down(offset, window->step, window->ring);
    }
}

/* The inputs of a window, less their zero point, summed over the `depth` channels from `first_in` on that one group reads. */
TW_INLINE int32_t tw_conv_2d_inputs(const tw_conv *p, const tw_view *in, const tw_window *window, int32_t first_in, int32_t depth)
{
    int32_t offset = window->offset + first_in;
    int32_t sum = -p->shape.in_zero * depth * window->rows * window->cols;
    for (int32_t row = 0; row < window->rows; ++row) {
        const int8_t *x = (const int8_t *)in->data + offset;
        for (int32_t col = 0; col < window->cols; ++col) {
            for (int32_t i = 0; i < depth; ++i) {
                sum += x[i];
            }
            x += p->shape.dilation.w * p->shape.in.c;
        }
        offset = tw_down(offset, window->step, window->ring);
    }
    return sum;
}

/* The range of the output; a filter has `filter` bytes. Weights have a zero point: the sum of x * (weight - weights_zero) is that of x * weight, less
 * weights_zero times the sum of the window's x, which all filters share. */
TW_INLINE void tw_conv_2d_over(const tw_conv *p, tw_view in, tw_view out, tw_range range, int32_t filter,
                               int32_t weights_zero, tw_products *dot)
{
    const int32_t group_in = p->shape.in.c / p->groups, group_out = p->shape.out.c / p->groups;

    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, p->shape.out.c);
        tw_window window = tw_window_of(&p->shape, &in, y, p->shape.in.c);
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            tw_window_cols(&p->shape, &window, x);
            int32_t channel = 0;
            for (int32_t first_in = 0; first_in < p->shape.in.c; first_in += group_in) {
                const int32_t end = channel + group_out;
                const int32_t shared = weights_zero ? -weights_zero * tw_conv_2d_inputs(p, &in, &window, first_in, group_in) : 0;
                for (int32_t filters; channel < end; channel += filters) {
                    const int8_t *const weights = p->weights + channel * filter;
                    int32_t sums[4] = {shared, shared, shared, shared};
                    filters = tw_min(end - channel, 4);
                    tw_conv_2d_sum(p, &in, &window, first_in, group_in, weights, filters, sums, filter, dot);
                    tw_conv_finish(p, channel, sums, filters, to + channel);
                }
            }
            to += p->shape.out.c;
        }
    }
}

#endif
