/* tw_depthwise_conv_2d.h - the loops of depthwise convolutions, portable C, for kernels with int8 or int4 weights.
 *
 * Without a depth multiplier four neighbouring channels are summed at once, or the last two or three. Inlined with
 * functions that are known, so that each kernel gets loops of its own.
 */
#ifndef TW_DEPTHWISE_CONV_2D_H
#define TW_DEPTHWISE_CONV_2D_H

#include "tw_conv.h"

/* Returns weight `index` of those from a byte on, `per_byte` to a byte. */
typedef int32_t tw_weight_at(const int8_t *from, int32_t index);

/* A tw_weight_at of int8 weights. */
static inline int32_t tw_int8(const int8_t *from, int32_t index) { return from[index]; }

/* The products of a window for `count` channels, two to four, from `channel` on, a multiple of four; depth multiplier 1. */
TW_INLINE void tw_depthwise_some(const tw_conv *p, const tw_view *in, const tw_window *window, int32_t channel, int32_t count,
                                 int32_t *sums, int32_t per_byte, tw_weight_at *at)
{
    const int32_t step = p->shape.dilation.w * window->pixel, zero = p->shape.in_zero;
    const int32_t tap = (p->shape.out.c + per_byte - 1) / per_byte;
    const int8_t *row_taps = p->weights + window->tap * tap + channel / per_byte;
    int32_t offset = window->offset + channel;
    int32_t sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;

    for (int32_t row = 0; row < window->rows; ++row) {
        const int8_t *x = (const int8_t *)in->data + offset, *taps = row_taps;
        for (int32_t i = 0; i < window->cols; ++i) {
            sum0 += (x[0] - zero) * at(taps, 0);
            sum1 += (x[1] - zero) * at(taps, 1);
            if (count > 2) {
                sum2 += (x[2] - zero) * at(taps, 2);
            }
            if (count == 4) {
                sum3 += (x[3] - zero) * at(taps, 3);
            }
            x += step;
            taps += tap;
        }
        row_taps += p->shape.kernel.w * tap;
        offset = tw_down(offset, window->step, window->ring);
    }
    sums[0] = sum0;
    sums[1] = sum1;
    if (count > 2) {
        sums[2] = sum2;
    }
    if (count == 4) {
        sums[3] = sum3;
    }
}

/* The products of a window for one output channel, which reads the input channel `channel_in`. */
TW_INLINE int32_t tw_depthwise_one(const tw_conv *p, const tw_view *in, const tw_window *window, int32_t channel_in,
                                   int32_t channel, int32_t weights_zero, int32_t per_byte, tw_weight_at *at)
{
    const int32_t tap = (p->shape.out.c + per_byte - 1) / per_byte;
    const int8_t *row_taps = p->weights + window->tap * tap;
    int32_t offset = window->offset;
    int32_t sum = 0;

    for (int32_t row = 0; row < window->rows; ++row) {
        const int8_t *x = (const int8_t *)in->data + offset, *taps = row_taps;
        for (int32_t i = 0; i < window->cols; ++i) {
            sum += (x[channel_in] - p->shape.in_zero) * (at(taps, channel) - weights_zero);
            x += p->shape.dilation.w * window->pixel;
            taps += tap;
        }
        row_taps += p->shape.kernel.w * tap;
        offset = tw_down(offset, window->step, window->ring);
    }
    return sum;
}

/* The range of the output. What up to four neighbouring channels read is read before they are written. */
TW_INLINE void tw_depthwise_over(const tw_conv *p, tw_view in, tw_view out, tw_range range, int32_t per_byte, tw_weight_at *at)
{
    const int32_t depth_multiplier = p->shape.out.c / p->shape.in.c;

    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, p->shape.out.c);
        tw_window window = tw_window_of(&p->shape, &in, y, p->shape.in.c);
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            tw_window_cols(&p->shape, &window, x);
            int32_t channel_in = 0, used = 0;
            for (int32_t channel = 0; channel < p->shape.out.c; channel += 4) {
                const int32_t count = tw_min(p->shape.out.c - channel, 4);
                int32_t sums[4];
                if (depth_multiplier == 1 && count == 4) {
                    tw_depthwise_some(p, &in, &window, channel, 4, sums, per_byte, at);
                    channel_in += 4;
                } else {
                    int32_t i = depth_multiplier == 1 && count > 1 ? count : 0;
                    if (i == 3) {
                        tw_depthwise_some(p, &in, &window, channel, 3, sums, per_byte, at);
                    } else if (i == 2) {
                        tw_depthwise_some(p, &in, &window, channel, 2, sums, per_byte, at);
                    }
                    for (; i < count; ++i) {
                        sums[i] = tw_depthwise_one(p, &in, &window, channel_in, channel + i, 0, per_byte, at);
                        if (++used == depth_multiplier) {
                            used = 0;
                            ++channel_in;
                        }
                    }
                }
                tw_conv_finish(p, channel, sums, count, to + channel);
            }
            to += p->shape.out.c;
        }
    }
}

#endif
