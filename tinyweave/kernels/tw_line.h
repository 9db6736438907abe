/* tw_line.h - the inner loop of depthwise convolutions with the Arm DSP extension: lines of columns, two to a word.
 *
 * Four channels of some columns of a row are widened to 16 bits and turned into a line each, so that SMLAD takes two columns
 * at once; the lines of the kernel's rows follow each other.
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
    uint32_t padding;  /* four bytes of it */
    int32_t step;      /* bytes from a column to the next */
} tw_columns;

/* The filling of `words` words of a line from column `left` on, where columns [0, end) are inside; returns the first that is. */
int32_t tw_columns_set(tw_columns *columns, int32_t left, int32_t words, int32_t end);

/* Fills the four lines of a row; from: the first column inside. */
void tw_line_fill(const tw_columns *columns, uint32_t *to, const int8_t *from);

/* The same for a row that is all padding. */
void tw_line_pad(const tw_columns *columns, uint32_t *to);

/* Part of an output row of four channels. */
typedef struct {
    const uint32_t *x;     /* the lines */
    const uint32_t *words; /* weights and what rescales the sums, as below */
    int8_t *to;            /* outputs of the first channel, `step` bytes apart */
    int32_t step, count;
    int32_t rows;          /* of the kernel */
    int32_t pairs;         /* of weights in a row */
    int32_t zero, sign;    /* as for tw_rescale_doubled */
} tw_line;

/* The width of a kernel with the zeros that make it odd and at least 3. */
static inline int32_t tw_line_taps(int32_t width) { return tw_max(width | 1, 3); }

/* One for each width of the kernel and stride; one for any width; those at the end for kernels of three rows alone. They read what four sums at a
 * time need. The words are, per channel: for each row of the kernel its weights, doubled, in pairs, then the bias less the
 * input's zero point times the weights, doubled, the multiplier, 2^(32 - exponent). With stride 1 the pairs of weights are
 * (0, 1), (1, 2), ..; with stride 2 (0, 1), (2, 3), .., (last, none). */
void tw_line_3_1(const tw_line *line);
void tw_line_5_1(const tw_line *line);
void tw_line_7_1(const tw_line *line);
void tw_line_3_2(const tw_line *line);
void tw_line_5_2(const tw_line *line);
void tw_line_7_2(const tw_line *line);
void tw_line_any_1(const tw_line *line);
void tw_line_3_1_rows_3(const tw_line *line);
void tw_line_3_2_rows_3(const tw_line *line);

#endif
