/* tw_conv_2d_s8.c - int8 convolution by im2col instead of the portable one: a step of bench/ablation.py, not of tinyweave.
 *
 * The inputs of a window are widened to 16 bits in a column of one buffer, which all layers of the network share; a layer fills
 * it with as many columns as fit. Then two columns are multiplied by two filters at a time, with the Arm DSP extension, the
 * weights in the order of the file.
 * Source: equations 3.1 and 3.2 of the MCUNet thesis; CMSIS-NN (arXiv 1801.06601), section 3.2.
 */
#include "tw_conv.h"

#include "tw_ablation.h"
#include "tw_dsp.h"

#define FILTERS 16 /* whose sums are rescaled with one call */

/* A column has two words per four inputs k .. k + 3, lanes (k, k + 2) and (k + 1, k + 3), less the zero point; zeros at
 * its end. The widest layer of the network has room for two columns. */
static uint32_t columns[TW_IM2COL_WORDS];

/* What a group of a layer's filters needs of a window. */
typedef struct {
    int32_t depth, inputs, quads; /* inputs of a pixel; of a window; fours of these, rounded up */
} tw_column;

/* Widens fours of inputs. They may be the second half of the words that they are widened to. */
static void widen(const int8_t *from, int32_t quads, int32_t zero, uint32_t *to)
{
    const uint32_t zeros = tw_lanes(zero, zero);
    for (int32_t i = 0; i < quads; ++i) {
        const uint32_t word = tw_word(from + 4 * i);
        to[2 * i] = tw_ssub16(tw_sxtb16(word), zeros);
        to[2 * i + 1] = tw_ssub16(tw_sxtb16_odd(word), zeros);
    }
}

/* Gathers a window from the input channel `first_in` on. */
static void gather(const tw_conv *p, const tw_view *in, const tw_window *window, const tw_column *column, int32_t first_in,
                   uint32_t *to)
{
    const int together = p->groups == 1 && p->dilation.w == 1;
    const int32_t depth = column->depth, taps = p->kernel.h * p->kernel.w;
    const int32_t run = together ? window->cols * depth : depth, runs = together ? 1 : window->cols;
    const int whole = window->rows * window->cols == taps && column->inputs == 4 * column->quads;
    int32_t offset = window->offset + first_in;
    if (whole && taps == 1) {
        widen((const int8_t *)in->data + offset, column->quads, p->in_zero, to);
        return;
    }
    int8_t *const bytes = (int8_t *)(to + column->quads);
    int8_t *row = bytes + window->tap * depth;
    if (!whole) {
        memset(bytes, p->in_zero, (size_t)(4 * column->quads));
    }
    for (int32_t y = 0; y < window->rows; ++y) {
        const int8_t *from = (const int8_t *)in->data + offset;
        for (int32_t i = 0; i < runs; ++i) {
            memcpy(row + i * depth, from, (size_t)run);
            from += p->dilation.w * p->in.c;
        }
        row += p->kernel.w * depth;
        offset = tw_down(offset, window->step, window->ring);
    }
    widen(bytes, column->quads, p->in_zero, to);
}

/* The last weights of a filter, fewer than four, and zeros. */
static uint32_t last_weights(const int8_t *from, int32_t count)
{
    uint32_t word = 0;
    for (int32_t i = 0; i < count; ++i) {
        word |= (uint32_t)(uint8_t)from[i] << (8 * i);
    }
    return word;
}

#define PRODUCTS(word_0, word_1)                                            \
    do {                                                                    \
        const uint32_t even_0 = tw_sxtb16(word_0), odd_0 = tw_sxtb16_odd(word_0); \
        const uint32_t even_1 = tw_sxtb16(word_1), odd_1 = tw_sxtb16_odd(word_1); \
        sum_00 = tw_smlad(odd_0, x_0[1], tw_smlad(even_0, x_0[0], sum_00)); \
        sum_01 = tw_smlad(odd_1, x_0[1], tw_smlad(even_1, x_0[0], sum_01)); \
        sum_10 = tw_smlad(odd_0, x_1[1], tw_smlad(even_0, x_1[0], sum_10)); \
        sum_11 = tw_smlad(odd_1, x_1[1], tw_smlad(even_1, x_1[0], sum_11)); \
        x_0 += 2;                                                           \
        x_1 += 2;                                                           \
    } while (0)
#define ROUND                                                \
    do {                                                     \
        const uint32_t both_0 = tw_word(w_0), both_1 = tw_word(w_1); \
        PRODUCTS(both_0, both_1);                            \
        w_0 += 4;                                            \
        w_1 += 4;                                            \
    } while (0)

/* sums[column][filter] of two columns and `count` filters, the last one of an odd number twice. */
TW_ALONE static void multiply(const uint32_t *column_0, const uint32_t *column_1, const int8_t *weights, int32_t inputs,
                              int32_t count, int32_t sums[2][FILTERS])
{
    const int32_t rest = inputs & 3;
    for (int32_t filter = 0; filter < count; filter += 2) {
        const uint32_t *x_0 = column_0, *x_1 = column_1;
        const int8_t *w_0 = weights, *w_1 = filter + 1 < count ? weights + inputs : weights;
        int32_t sum_00 = 0, sum_01 = 0, sum_10 = 0, sum_11 = 0, rounds = inputs >> 2;
#if TW_UNROLLED
        for (; rounds >= 4; rounds -= 4) {
            ROUND;
            TW_LATER;
            ROUND;
            TW_LATER;
            ROUND;
            TW_LATER;
            ROUND;
        }
#endif
        for (; rounds > 0; --rounds) {
            ROUND;
        }
        if (rest > 0) {
            const uint32_t last_0 = last_weights(w_0, rest), last_1 = last_weights(w_1, rest);
            PRODUCTS(last_0, last_1);
        }
        sums[0][filter] = sum_00;
        sums[0][filter + 1] = sum_01;
        sums[1][filter] = sum_10;
        sums[1][filter + 1] = sum_11;
        weights += 2 * inputs;
    }
}

/* The outputs from `channel` up to `end` of so many pixels, whose columns are filled. */
static void finish(const tw_conv *p, const tw_column *column, int32_t pixels, int32_t channel, int32_t end, int8_t *to)
{
    for (int32_t i = 0; i < pixels; i += 2) {
        const int32_t both = tw_min(pixels - i, 2);
        const uint32_t *x_0 = columns + 2 * i * column->quads, *x_1 = both == 2 ? x_0 + 2 * column->quads : x_0;
        for (int32_t at = channel; at < end; at += FILTERS) {
            const int32_t count = tw_min(end - at, FILTERS);
            int32_t sums[2][FILTERS];
            multiply(x_0, x_1, p->weights + at * column->inputs, column->inputs, count, sums);
            for (int32_t pixel = 0; pixel < both; ++pixel) {
                tw_conv_finish(p, at, sums[pixel], count, to + pixel * p->out.c + at);
            }
        }
        to += 2 * p->out.c;
    }
}

void tw_conv_2d_s8_part(const tw_conv *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t depth = p->in.c / p->groups, group_out = p->out.c / p->groups, inputs = p->kernel.h * p->kernel.w * depth;
    const tw_column column = {depth, inputs, (inputs + 3) / 4};
    const int32_t most = TW_IM2COL_WORDS / (2 * column.quads); /* columns at a time */

    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        tw_window window = tw_window_of(p, &in, y, p->in.c);
        for (int32_t x = range.col_begin; x < range.col_end; x += most) {
            const int32_t pixels = tw_min(most, range.col_end - x);
            int8_t *to = (int8_t *)tw_pixel(&out, y, x, p->out.c);
            for (int32_t group = 0; group < p->groups; ++group) {
                for (int32_t i = 0; i < pixels; ++i) {
                    tw_window_cols(p, &window, x + i);
                    gather(p, &in, &window, &column, group * depth, columns + 2 * i * column.quads);
                }
                finish(p, &column, pixels, group * group_out, (group + 1) * group_out, to);
            }
        }
    }
}

void tw_conv_2d_s8(const tw_conv *p, const void *in, void *out)
{
    tw_conv_2d_s8_part(p, tw_whole(in, p->in), tw_whole(out, p->out), tw_all(p->out));
}
