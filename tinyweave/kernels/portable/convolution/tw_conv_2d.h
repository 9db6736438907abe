/* tw_conv_2d.h - the loops of dense and grouped convolutions, portable C, for kernels that differ in how values lie in memory.
 *
 * Four output channels share each input; where the taps of a window's row lie together, they are one run. Inlined with
 * functions that are known, so that each kernel gets loops of its own.
 */
#ifndef TW_CONV_2D_H
#define TW_CONV_2D_H

#include "tw_conv.h"

/* sums += the products of `count` inputs, from number first_in of a pixel on, with as many weights, from number `first` of a
 * filter on; of 1 or 4 filters, `filter` bytes each. */
typedef void tw_conv_2d_dot(const int8_t *pixel, int32_t first_in, int32_t zero, const int8_t *weights, int32_t filter,
                            int32_t first, int32_t count, int32_t filters, int32_t *sums);

/* sums += the products of a window, from the input channel `first_in` on, with `filters` filters, 1 or 4. */
typedef void tw_conv_2d_window(const tw_conv *p, const tw_view *in, const tw_window *window, int32_t first_in,
                               const int8_t *weights, int32_t filters, int32_t *sums);

/* A tw_conv_2d_window. A tap begins `tap` weights after the one before it, and if that is as many as it has, no half byte lies
 * between pixels. */
static inline void tw_conv_2d_sum(const tw_conv *p, const tw_view *in, const tw_window *window, int32_t first_in,
                                  const int8_t *weights, int32_t filter, int32_t filters, int32_t *sums, int32_t tap,
                                  tw_conv_2d_dot *dot)
{
    const int32_t depth = p->in.c / p->groups;
    const int together = tap == depth && p->groups == 1 && p->dilation.w == 1;
    const int32_t run = together ? window->cols * depth : depth;
    const int32_t runs = together ? 1 : window->cols;
    int32_t row_first = window->tap * tap;
    int32_t offset = window->offset;

    for (int32_t row = 0; row < window->rows; ++row) {
        const int8_t *pixel = (const int8_t *)in->data + offset;
        int32_t first = row_first;
        for (int32_t i = 0; i < runs; ++i) {
            dot(pixel, first_in, p->in_zero, weights, filter, first, run, filters, sums);
            pixel += p->dilation.w * window->pixel;
            first += tap;
        }
        row_first += p->kernel.w * tap;
        offset = tw_down(offset, window->step, window->ring);
    }
}

/* The range of the output; pixels of in_pixel and out_pixel bytes. */
static inline void tw_conv_2d_over(const tw_conv *p, tw_view in, int32_t in_pixel, tw_view out, int32_t out_pixel,
                                   tw_range range, int32_t filter, tw_conv_2d_window *add, tw_conv_finish_pixel *finish)
{
    const int32_t group_in = p->in.c / p->groups, group_out = p->out.c / p->groups;

    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, out_pixel);
        tw_window window = tw_window_of(p, &in, y, in_pixel);
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            tw_window_cols(p, &window, x);
            int32_t channel = 0;
            for (int32_t first_in = 0; first_in < p->in.c; first_in += group_in) {
                const int32_t end = channel + group_out;
                while (channel < end) {
                    const int32_t filters = end - channel >= 4 ? 4 : 1;
                    int32_t sums[4] = {0, 0, 0, 0};
                    add(p, &in, &window, first_in, p->weights + channel * filter, filters, sums);
                    finish(p, channel, sums, filters, to);
                    channel += filters;
                }
            }
            to += out_pixel;
        }
    }
}

#endif
