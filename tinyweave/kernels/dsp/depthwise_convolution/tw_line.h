/* tw_line.h - the inner loop of depthwise convolutions with the Arm DSP extension: lines of columns, two to a word.
 *
 * Four channels of some columns of a row are widened to 16 bits and turned into a line each, so that SMLAD takes two columns
 * at once; the lines of the rows follow each other. Of a strip of output rows each row of the input is gathered once.
 */
#ifndef TW_LINE_H
#define TW_LINE_H

#include "tw.h"

#define TW_LINE_WORDS 16 /* of a line */
#define TW_LINE_CHANNELS 4
#define TW_LINE_ROW_WORDS (TW_LINE_CHANNELS * TW_LINE_WORDS)

/* How a line is filled, by words of two columns: padding, then perhaps padding and a column, pairs of columns, perhaps a column
 * and padding, padding. */
typedef struct {
    int32_t before, first, pairs, last, after;
    uint32_t padding;    /* four bytes of it */
    int32_t step;        /* bytes from a column to the next */
    int32_t rows;        /* of the input */
    int32_t down, ring;  /* bytes from a row to the next; of the whole ring */
} tw_columns;

/* The filling of `words` words of a line from column `left` on, where columns [0, end) are inside; returns the first that
 * is. */
int32_t tw_columns_set(tw_columns *columns, int32_t left, int32_t words, int32_t end);

/* Fills the columns inside of the four lines of each row; offset: of the first column inside. */
void tw_line_fill(const tw_columns *columns, uint32_t *to, const int8_t *data, int32_t offset);

/* Fills the padding of a row, of which all is padding or only what lies before and after the columns inside. */
void tw_line_pad(const tw_columns *columns, uint32_t *to, int whole);

/* Parts of output rows of four channels. */
typedef struct {
    const uint32_t *x;      /* the lines */
    const uint32_t *words;  /* weights and what rescales the sums, as below */
    int8_t *to;             /* outputs of the first channel */
    int32_t channels;       /* TW_LINE_CHANNELS; where compilers know that, they unroll what is much code */
    int32_t rows, down;     /* output rows, and bytes from one to the next */
    int32_t count, step;    /* output columns, the same */
    int32_t stride;         /* rows of the input from an output row to the next */
    int32_t taps, pairs;    /* rows of the kernel, and pairs of weights in each */
    int32_t zero, sign;     /* as for tw_rescale_doubled */
} tw_line;

/* The width of a kernel with the zeros that make it odd and at least 3. */
static inline int32_t tw_line_taps(int32_t width) { return tw_max(width | 1, 3); }

/* One for each width of the kernel and stride, of at most TW_LINE_MOST_TAPS rows; one for any size; those at the end for
 * kernels of three rows alone, in the order that suits a Cortex-M7 where they end in _m7. They read what four sums at a time
 * need. The words are, per channel: the bias less the input's zero point times the weights, doubled, for each row of the
 * kernel its weights, doubled, in pairs, then the multiplier, 2^(32 - exponent). With stride 1 the pairs of weights are (0,
 * 1), (1, 2), ..; with stride 2 (0, 1), (2, 3), .., (last, none). */
#define TW_LINE_MOST_TAPS 7
typedef void tw_line_outputs(const tw_line *line);
tw_line_outputs tw_line_3_1, tw_line_5_1, tw_line_7_1, tw_line_3_2, tw_line_5_2, tw_line_7_2, tw_line_any_1;
tw_line_outputs tw_line_3_1_rows_3, tw_line_3_2_rows_3, tw_line_3_1_rows_3_m7, tw_line_3_2_rows_3_m7;

#endif
