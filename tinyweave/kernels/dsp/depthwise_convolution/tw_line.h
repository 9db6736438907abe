/* tw_line.h - inner loops of depthwise convolutions with the Arm DSP extension, from lines of columns.
 *
 * A line holds neighbouring columns of one channel and row as 16-bit values, two to a word, so that SMLAD multiplies two
 * columns. Four channels of a block of columns are transposed to four lines; the lines of successive rows follow each other.
 * Each input row of a strip of output rows is gathered once.
 *
 * Layers: depthwise_conv_2d with depth multiplier 1, int8 weights, at least four channels; windows at most 17 wide at a
 * horizontal stride of 1, at most 7x7 at a stride of 2.
 *
 * Weights: one stream of words, read forward. Per channel, in the window's width made odd and at least 3 by zeros:
 *   1 word               the doubled bias, with the input's zero point times the sum of the weights subtracted
 *   `pairs` words a row  doubled weights, two to a word: at stride 1 (0, 1), (1, 2), ..; at stride 2 (0, 1), (2, 3), ..
 *   2 words              multiplier, 2^(32 - exponent)
 *
 * Cost of a row of the window for four outputs, in instructions, without gathering and rescaling. Stride 1: 11 for 12 MACs of
 * three columns, 15 for 20 of five, 20 for 28 of seven. Stride 2: 12, 16 and 21. 3x3 windows of stride 1 take 54 to 58 for four
 * outputs of two rows, with rescaling. layer_cycles.json has fitted cycles for all parts.
 */
#ifndef TW_LINE_H
#define TW_LINE_H

#include "tw.h"

#define TW_LINE_WORDS 16 /* per line */
#define TW_LINE_CHANNELS 4
#define TW_LINE_ROW_WORDS (TW_LINE_CHANNELS * TW_LINE_WORDS)

/* How a line is filled, in words of two columns: `before` words of padding; if `first`, padding and a column; `pairs` of
 * columns; if `last`, a column and padding; `after` words of padding. */
typedef struct {
    int32_t before, first, pairs, last, after;
    uint32_t padding;    /* the zero point in each byte */
    int32_t step;        /* bytes to the next column */
    int32_t rows;        /* rows of the input */
    int32_t down, ring;  /* bytes to the next row; bytes of the ring buffer */
} tw_columns;

/* Plans the filling of `words` words from column `left` on; columns [0, end) are inside the map. Returns the first column
 * inside. */
int32_t tw_columns_set(tw_columns *columns, int32_t left, int32_t words, int32_t end);

/* Fills the columns inside the map, in four lines of each row; offset: of the first such column. */
void tw_line_fill(const tw_columns *columns, uint32_t *to, const int8_t *data, int32_t offset);

/* Fills the padding of a row: all words if `whole`, else those before and after the columns inside the map. */
void tw_line_pad(const tw_columns *columns, uint32_t *to, int whole);

/* A block of columns of a strip of output rows, four channels. */
typedef struct {
    const uint32_t *x;      /* the lines */
    const uint32_t *words;  /* the stream of the first channel */
    int8_t *to;             /* outputs of the first channel */
    int32_t channels;       /* TW_LINE_CHANNELS, as a member, since compilers unroll loops of constant length */
    int32_t rows, down;     /* output rows, bytes to the next one */
    int32_t count, step;    /* output columns, bytes to the next one */
    int32_t stride;         /* input rows per output row */
    int32_t taps, pairs;    /* rows of the window, words of weights per row */
    int32_t zero, sign;     /* see tw_rescale_doubled */
} tw_line;

/* The width of a window with the zeros that make it odd and at least 3. */
static inline int32_t tw_line_taps(int32_t width) { return tw_max(width | 1, 3); }

/* Compute all outputs of a tw_line: a function per width and stride for at most TW_LINE_MOST_TAPS rows; tw_line_any_1 for any
 * window at stride 1; _rows_3 for windows of three rows, _m7 scheduled for a Cortex-M7. They read the inputs of whole fours of
 * sums. */
#define TW_LINE_MOST_TAPS 7
typedef void tw_line_outputs(const tw_line *line);
tw_line_outputs tw_line_3_1, tw_line_5_1, tw_line_7_1, tw_line_3_2, tw_line_5_2, tw_line_7_2, tw_line_any_1;
tw_line_outputs tw_line_3_1_rows_3, tw_line_3_2_rows_3, tw_line_3_1_rows_3_m7, tw_line_3_2_rows_3_m7;

#endif
