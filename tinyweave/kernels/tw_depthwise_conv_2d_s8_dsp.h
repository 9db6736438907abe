/* tw_depthwise_conv_2d_s8_dsp.h - int8 depthwise convolution with the Arm DSP extension: kernels 3, 5 or 7 wide, stride 1 or 2
 * along the width, not dilated, depth multiplier 1, at least 4 channels.
 *
 * Four channels of a block of columns are widened to 16 bits and turned into lines, of which SMLAD takes two columns at once. */
#ifndef TW_DEPTHWISE_CONV_2D_S8_DSP_H
#define TW_DEPTHWISE_CONV_2D_S8_DSP_H

#include "tw_conv_dsp.h"

#define TW_LINE_WORDS 16 /* of two columns each */

/* Part of an output row of four channels. */
typedef struct {
    const uint32_t *x;     /* a line of TW_LINE_WORDS for each channel; the kernel's next row follows */
    const uint32_t *words; /* as below */
    int8_t *to;            /* outputs of the first channel, `step` bytes apart */
    int32_t step, count;
    int32_t rows;          /* of the kernel */
    int32_t zero, sign;    /* as for tw_rescale_doubled */
} tw_line;

/* One for each width of the kernel and stride; the last is for kernels of three rows alone. */
void tw_line_3_1(const tw_line *line);
void tw_line_5_1(const tw_line *line);
void tw_line_7_1(const tw_line *line);
void tw_line_3_2(const tw_line *line);
void tw_line_5_2(const tw_line *line);
void tw_line_7_2(const tw_line *line);
void tw_line_3_1_rows_3(const tw_line *line);

/* stream: per channel, for each row of the kernel its weights, doubled, in pairs, then the bias less the input's zero point
 * times the weights, doubled, the multiplier, 2^(32 - exponent). With stride 1 the pairs of weights w are (0, 1), (1, 2), ..;
 * with stride 2 (0, 1), (2, 3), .., (last, none). */
typedef struct {
    tw_conv_dsp base;
    void (*line)(const tw_line *);  /* that of the kernel's width and stride */
    int32_t block;                  /* output columns at a time, whose inputs fit into a line */
} tw_depthwise_dsp;

/* scratch: aligned to words, kernel.h lines of four channels. Four channels of a block are read before any is written; the last
 * four may be some of those before again. */
void tw_depthwise_conv_2d_s8_dsp(const tw_depthwise_dsp *p, const void *in, void *out, void *scratch);

/* The same for a range of the output, from and to parts of maps. */
void tw_depthwise_conv_2d_s8_dsp_part(const tw_depthwise_dsp *p, tw_view in, tw_view out, tw_range range, void *scratch);

#endif
