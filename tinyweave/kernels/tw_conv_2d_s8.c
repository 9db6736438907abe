/* tw_conv_2d_s8.c - int8 convolution, portable C: the specification of every faster variant.
 *
 * Four output channels share each input; where the taps of a window's row lie together, they are one run.
 */
#include "tw_conv_2d_s8.h"

#include "tw_dot.h"

void tw_conv_2d_products(const tw_conv *p, const tw_view *in, const tw_window *window, int32_t first_in,
                         const int8_t *weights, int32_t filters, int32_t *sums)
{
    const int32_t depth = p->in.c / p->groups;
    const int32_t filter = p->kernel.h * p->kernel.w * depth;
    const int together = p->groups == 1 && p->dilation.w == 1;
    const int32_t run = together ? window->cols * depth : depth;
    const int32_t runs = together ? 1 : window->cols;
    const int8_t *row_taps = weights + window->tap * depth;
    int32_t offset = window->offset + first_in;

    for (int32_t row = 0; row < window->rows; ++row) {
        const int8_t *x = (const int8_t *)in->data + offset, *taps = row_taps;
        for (int32_t i = 0; i < runs; ++i) {
            if (filters == 4) {
                tw_dot4(x, p->in_zero, taps, filter, run, sums);
            } else {
                tw_dot1(x, p->in_zero, taps, run, sums);
            }
            x += p->dilation.w * p->in.c;
            taps += depth;
        }
        row_taps += p->kernel.w * depth;
        offset = tw_down(offset, window->step, window->ring);
    }
}

void tw_conv_2d_s8_part(const tw_conv *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t group_in = p->in.c / p->groups, group_out = p->out.c / p->groups;
    const int32_t filter = p->kernel.h * p->kernel.w * group_in;

    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, p->out.c);
        tw_window window = tw_window_rows(p, &in, y);
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            tw_window_cols(p, &window, x);
            int32_t channel = 0;
            for (int32_t first_in = 0; first_in < p->in.c; first_in += group_in) {
                const int32_t end = channel + group_out;
                while (channel < end) {
                    const int32_t filters = end - channel >= 4 ? 4 : 1;
                    int32_t sums[4] = {0, 0, 0, 0};
                    tw_conv_2d_products(p, &in, &window, first_in, p->weights + channel * filter, filters, sums);
                    tw_conv_finish(p, channel, sums, filters, to + channel);
                    channel += filters;
                }
            }
            to += p->out.c;
        }
    }
}

void tw_conv_2d_s8(const tw_conv *p, const void *in, void *out)
{
    tw_conv_2d_s8_part(p, tw_whole(in, p->in), tw_whole(out, p->out), tw_all(p->out));
}
