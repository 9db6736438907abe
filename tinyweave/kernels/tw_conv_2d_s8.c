/* tw_conv_2d_s8.c - int8 convolution, portable C: the specification of every faster variant.
 *
 * Window positions outside the map are skipped, which equals padding with the input's zero point.
 */
#include "tw_conv_2d_s8.h"

void tw_conv_2d_s8(const tw_conv *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t group_in = p->in.c / p->groups;
    const int32_t group_out = p->out.c / p->groups;
    const int32_t filter_row = p->kernel.w * group_in;
    const int32_t filter = p->kernel.h * filter_row;

    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *to = (int8_t *)tw_row(&out, y) + (range.col_begin - out.first_col) * p->out.c;
        const int32_t top = y * p->stride.h - p->pad.h;
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            const int32_t left = x * p->stride.w - p->pad.w;
            const int8_t *weights = p->weights;
            for (int32_t channel = 0; channel < p->out.c; ++channel) {
                const int32_t first_in = channel / group_out * group_in;
                int32_t sum = p->bias ? p->bias[channel] : 0;
                for (int32_t ky = 0; ky < p->kernel.h; ++ky) {
                    const int32_t row = top + ky * p->dilation.h;
                    if (row < 0 || row >= p->in.h) {
                        continue;
                    }
                    const int8_t *from = (const int8_t *)tw_row(&in, row) - in.first_col * p->in.c + first_in;
                    for (int32_t kx = 0; kx < p->kernel.w; ++kx) {
                        const int32_t col = left + kx * p->dilation.w;
                        if (col < 0 || col >= p->in.w) {
                            continue;
                        }
                        const int8_t *pixel = from + col * p->in.c;
                        const int8_t *taps = weights + ky * filter_row + kx * group_in;
                        for (int32_t i = 0; i < group_in; ++i) {
                            sum += (pixel[i] - p->in_zero) * taps[i];
                        }
                    }
                }
                weights += filter;
                sum = tw_requantize(sum, p->multiplier[channel], p->shift[channel]) + p->out_zero;
                *to++ = (int8_t)tw_clamp(sum, p->out_min, p->out_max);
            }
        }
    }
}
