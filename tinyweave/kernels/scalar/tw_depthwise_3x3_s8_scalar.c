/* tw_depthwise_3x3_s8_scalar.c - int8 depthwise convolution 3x3 in plain C: one channel of a run of outputs, its nine weights
 * in registers, each input loaded once. tw_conv_scalar.h has the layers. */
#include "tw_conv_scalar.h"

#define SIDE 3

/* Outputs [begin, end) of a row. The rows of their windows begin at `rows`. For a row outside the map `inside` is 0 and the
 * pointer is that of the nearest row. */
typedef struct {
    const int8_t *rows[SIDE];
    int inside[SIDE];
    int32_t begin, end;
    tw_span within;       /* outputs whose windows are inside the map's columns */
    int32_t left, width;  /* the first column of the first window; columns [0, width) are inside the map */
} output_run;

/* Loads the weights of a row, zeros if it is outside the map. */
#define TAP(row, col) w##row##col = taps[((row) * SIDE + (col)) * depth]
#define TAPS(row)                \
    do {                         \
        if (run->inside[row]) {  \
            TAP(row, 0);         \
            TAP(row, 1);         \
            TAP(row, 2);         \
        }                        \
    } while (0)
/* Loads the next column of three inputs; LOAD_INSIDE takes zero points outside the map. */
#define LOAD                                           \
    do {                                               \
        value0 = *r0, value1 = *r1, value2 = *r2;      \
        r0 += depth, r1 += depth, r2 += depth;         \
    } while (0)
#define LOAD_INSIDE                                    \
    do {                                               \
        if (left >= 0 && left < run->width) {          \
            LOAD;                                      \
        } else {                                       \
            value0 = value1 = value2 = p->shape.in_zero;     \
        }                                              \
        ++left;                                        \
    } while (0)
/* Adds the products of the loaded column with column `col` of the window. */
#define ADD(sum, col) sum += (uint32_t)(value0 * w0##col) + (uint32_t)(value1 * w1##col) + (uint32_t)(value2 * w2##col)

/* Completes an output: its window's first two columns, or at stride 2 the first, are in `sum`. The same columns begin the next
 * sums. */
#define OUTPUT_1(LOAD)    \
    do {                  \
        LOAD;             \
        ADD(sum, 2);      \
        *sums++ = sum;    \
        sum = next;       \
        ADD(sum, 1);      \
        next = base;      \
        ADD(next, 0);     \
    } while (0)
#define OUTPUT_2(LOAD)    \
    do {                  \
        LOAD;             \
        ADD(sum, 1);      \
        LOAD;             \
        ADD(sum, 2);      \
        *sums++ = sum;    \
        sum = base;       \
        ADD(sum, 0);      \
    } while (0)
/* Runs OUTPUT for all outputs, without tests for padding while windows are inside the map's columns. */
#define OUTPUTS(OUTPUT, step)                          \
    while (sums != end) {                              \
        if (sums != within) {                          \
            OUTPUT(LOAD_INSIDE);                       \
            continue;                                  \
        }                                              \
        left += (step) * (int32_t)(beyond - within);   \
        do {                                           \
            OUTPUT(LOAD);                              \
        } while (sums != beyond);                      \
    }

/* Computes the sums of a channel, modulo 2^32. The sum of the weights times the input's zero point is subtracted once, so
 * columns outside the map count as zero points. */
static void add_up(const tw_conv *p, const output_run *run, int32_t channel, uint32_t *sums)
{
    const int32_t depth = p->shape.in.c, at = tw_clamp(run->left, 0, run->width) * depth + channel;
    const int8_t *const taps = p->weights + channel;
    const int8_t *r0 = run->rows[0] + at, *r1 = run->rows[1] + at, *r2 = run->rows[2] + at;
    const int is_within = run->within.begin < run->within.end;
    const uint32_t *const end = sums + (run->end - run->begin);
    const uint32_t *const within = is_within ? sums + (run->within.begin - run->begin) : 0;
    const uint32_t *const beyond = is_within ? sums + (run->within.end - run->begin) : 0;
    int32_t w00 = 0, w01 = 0, w02 = 0, w10 = 0, w11 = 0, w12 = 0, w20 = 0, w21 = 0, w22 = 0;
    int32_t value0, value1, value2, left = run->left;
    TAPS(0);
    TAPS(1);
    TAPS(2);
    const int32_t all = w00 + w01 + w02 + w10 + w11 + w12 + w20 + w21 + w22;
    const uint32_t base = (p->bias ? (uint32_t)p->bias[channel] : 0) - (uint32_t)(p->shape.in_zero * all);
    uint32_t sum = base, next = base;
    LOAD_INSIDE;
    ADD(sum, 0);
    if (p->shape.stride.w == 1) {
        LOAD_INSIDE;
        ADD(sum, 1);
        ADD(next, 0);
        OUTPUTS(OUTPUT_1, 1);
    } else {
        OUTPUTS(OUTPUT_2, 2);
    }
}

/* Requantises and stores the outputs of a channel. */
static void finish(const tw_conv *p, int32_t channel, const uint32_t *sums, int32_t count, int8_t *to)
{
    const uint32_t twice = (uint32_t)p->multiplier[channel] << 1;
    const int32_t less = ~p->shift[channel], depth = p->shape.out.c;
    const int32_t zero = p->shape.out_zero, low = p->shape.out_min - zero, high = p->shape.out_max - zero;
    for (const uint32_t *const end = sums + count; sums != end; ++sums, to += depth) {
        *to = (int8_t)(tw_clamp(tw_rescale_down((int32_t)*sums, twice, less), low, high) + zero);
    }
}

void tw_depthwise_3x3_s8_scalar_part(const tw_conv *p, tw_view in, tw_view out, tw_range range)
{
    const tw_span within = tw_within(&p->shape, range);
    uint32_t sums[TW_DEPTHWISE_RUN];
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const tw_span rows = tw_inside(y * p->shape.stride.h - p->shape.pad.h, SIDE, 1, p->shape.in.h);
        const int is_inside = rows.begin < rows.end;
        output_run run;
        for (int32_t row = 0; row < SIDE; ++row) {
            const int32_t nearest = y * p->shape.stride.h - p->shape.pad.h + tw_clamp(row, rows.begin, rows.end - 1);
            run.inside[row] = row >= rows.begin && row < rows.end;
            run.rows[row] = (const int8_t *)in.data + (is_inside ? tw_offset(&in, nearest, 0, p->shape.in.c) : 0);
        }
        run.width = is_inside ? p->shape.in.w : 0;
        for (run.begin = range.col_begin; run.begin < range.col_end; run.begin = run.end) {
            run.end = tw_min(run.begin + TW_DEPTHWISE_RUN, range.col_end);
            run.within.begin = tw_clamp(within.begin, run.begin, run.end);
            run.within.end = is_inside ? tw_clamp(within.end, run.within.begin, run.end) : run.within.begin;
            run.left = run.begin * p->shape.stride.w - p->shape.pad.w;
            int8_t *to = (int8_t *)tw_pixel(&out, y, run.begin, p->shape.out.c);
            for (int32_t channel = 0; channel < p->shape.out.c; ++channel, ++to) {
                add_up(p, &run, channel, sums);
                finish(p, channel, sums, run.end - run.begin, to);
            }
        }
    }
}

TW_WHOLE_FORM(tw_depthwise_3x3_s8_scalar, tw_conv, tw_whole(in, p->shape.in), tw_whole(out, p->shape.out), p->shape.out)
