/* tw_conv_2d_s8_offset.c - int8 convolution whose weights have a zero point, portable C.
 *
 * The sum of x * (weight - zero) is that of x * weight, less zero times the sum of the window's x, which all filters share.
 */
#include "tw_conv_offset.h"

#include "tw_conv_2d_s8.h"

/* The inputs of a window, less their zero point, summed over the channels from `first_in` on that one group reads. */
static int32_t window_sum(const tw_conv *p, const tw_view *in, const tw_window *window, int32_t first_in)
{
    const int32_t depth = p->in.c / p->groups;
    int32_t offset = window->offset + first_in;
    int32_t sum = -p->in_zero * depth * window->rows * window->cols;
    for (int32_t row = 0; row < window->rows; ++row) {
        const int8_t *x = (const int8_t *)in->data + offset;
        for (int32_t col = 0; col < window->cols; ++col) {
            for (int32_t i = 0; i < depth; ++i) {
                sum += x[i];
            }
            x += p->dilation.w * p->in.c;
        }
        offset = tw_down(offset, window->step, window->ring);
    }
    return sum;
}

void tw_conv_2d_s8_offset_part(const tw_conv_offset *params, tw_view in, tw_view out, tw_range range)
{
    const tw_conv *p = &params->conv;
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
                const int32_t shared = -params->weights_zero * window_sum(p, &in, &window, first_in);
                while (channel < end) {
                    const int32_t filters = end - channel >= 4 ? 4 : 1;
                    int32_t sums[4] = {shared, shared, shared, shared};
                    tw_conv_2d_products(p, &in, &window, first_in, p->weights + channel * filter, filters, sums);
                    tw_conv_finish(p, channel, sums, filters, to + channel);
                    channel += filters;
                }
            }
            to += p->out.c;
        }
    }
}

TW_WHOLE_FORM(tw_conv_2d_s8_offset, tw_conv_offset, tw_whole(in, p->conv.in), tw_whole(out, p->conv.out), p->conv.out)
