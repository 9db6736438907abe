/* tw_depthwise_conv_2d_s8.c - the portable depthwise convolution with the taps of 3x3, 5x5 and 7x7 windows written out, of
 * those sides that the network has: a step of bench/ablation.py, not of tinyweave. Source: MCUNet thesis, section 3.2.3.
 *
 * Windows that meet the border, other kernels and channels that make no four run the loops of the portable kernel.
 */
#include "tw_conv.h"

#include "tw_ablation.h"

/* Four channels of a tap. */
#define TAP                            \
    do {                               \
        TW_LATER;                      \
        sum0 += (x[0] - zero) * taps[0]; \
        sum1 += (x[1] - zero) * taps[1]; \
        sum2 += (x[2] - zero) * taps[2]; \
        sum3 += (x[3] - zero) * taps[3]; \
        x += step;                     \
        taps += channels;              \
    } while (0)
#define TAPS_3 TAP; TAP; TAP
#define TAPS_5 TAPS_3; TAP; TAP
#define TAPS_7 TAPS_5; TAP; TAP

/* A row of taps; those of a window that is as wide as the kernel follow those of the row above. */
#define ROW(row_of_taps)                                 \
    do {                                                 \
        x = (const int8_t *)in->data + offset;           \
        row_of_taps;                                     \
        offset = tw_down(offset, window->step, window->ring); \
    } while (0)
#define ROWS_3 ROW(TAPS_3); ROW(TAPS_3); ROW(TAPS_3)
#define ROWS_5 ROW(TAPS_5); ROW(TAPS_5); ROW(TAPS_5); ROW(TAPS_5); ROW(TAPS_5)
#define ROWS_7 ROW(TAPS_7); ROW(TAPS_7); ROW(TAPS_7); ROW(TAPS_7); ROW(TAPS_7); ROW(TAPS_7); ROW(TAPS_7)

/* The side of a square window of which all taps are inside the map and written out, or 0. */
static int32_t side_of(const tw_conv *p, const tw_window *window)
{
    const int32_t side = p->kernel.h;
    const int known = (TW_SIDE_3 && side == 3) || (TW_SIDE_5 && side == 5) || (TW_SIDE_7 && side == 7);
    return known && p->kernel.w == side && window->rows == side && window->cols == side ? side : 0;
}

/* The products of a window for four channels from `channel` on, depth multiplier 1. */
static void products4(const tw_conv *p, const tw_view *in, const tw_window *window, int32_t side, int32_t channel,
                      int32_t *sums)
{
    const int32_t step = p->dilation.w * p->in.c, zero = p->in_zero, channels = p->out.c;
    const int8_t *row_taps = p->weights + window->tap * channels + channel, *taps = row_taps, *x;
    int32_t offset = window->offset + channel;
    int32_t sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;

    if (TW_SIDE_3 && side == 3) {
        ROWS_3;
    } else if (TW_SIDE_5 && side == 5) {
        ROWS_5;
    } else if (TW_SIDE_7 && side == 7) {
        ROWS_7;
    } else {
        for (int32_t row = 0; row < window->rows; ++row) {
            ROW(for (int32_t i = 0; i < window->cols; ++i) TAP);
            row_taps += p->kernel.w * channels;
            taps = row_taps;
        }
    }
    sums[0] = sum0;
    sums[1] = sum1;
    sums[2] = sum2;
    sums[3] = sum3;
}

/* The products of a window for one output channel, which reads the input channel `channel_in`. */
static int32_t products(const tw_conv *p, const tw_view *in, const tw_window *window, int32_t channel_in, int32_t channel)
{
    const int8_t *row_taps = p->weights + window->tap * p->out.c + channel;
    int32_t offset = window->offset + channel_in;
    int32_t sum = 0;

    for (int32_t row = 0; row < window->rows; ++row) {
        const int8_t *x = (const int8_t *)in->data + offset, *taps = row_taps;
        for (int32_t i = 0; i < window->cols; ++i) {
            sum += (*x - p->in_zero) * *taps;
            x += p->dilation.w * p->in.c;
            taps += p->out.c;
        }
        row_taps += p->kernel.w * p->out.c;
        offset = tw_down(offset, window->step, window->ring);
    }
    return sum;
}

void tw_depthwise_conv_2d_s8_part(const tw_conv *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t depth_multiplier = p->out.c / p->in.c;
    const int32_t fours = depth_multiplier == 1 ? p->out.c / 4 * 4 : 0;

    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, p->out.c);
        tw_window window = tw_window_of(p, &in, y, p->in.c);
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            tw_window_cols(p, &window, x);
            const int32_t side = side_of(p, &window);
            int32_t channel = 0;
            for (; channel < fours; channel += 4) {
                int32_t sums[4];
                products4(p, &in, &window, side, channel, sums);
                tw_conv_finish(p, channel, sums, 4, to + channel);
            }
            /* the rest, or with a depth multiplier all */
            for (int32_t channel_in = channel; channel_in < p->in.c; ++channel_in) {
                for (int32_t i = 0; i < depth_multiplier; ++i, ++channel) {
                    const int32_t sum = products(p, &in, &window, channel_in, channel);
                    tw_conv_finish(p, channel, &sum, 1, to + channel);
                }
            }
            to += p->out.c;
        }
    }
}

void tw_depthwise_conv_2d_s8(const tw_conv *p, const void *in, void *out)
{
    tw_depthwise_conv_2d_s8_part(p, tw_whole(in, p->in), tw_whole(out, p->out), tw_all(p->out));
}
