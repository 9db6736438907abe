/* tw_depthwise_conv_2d_s8_dsp.h - int8 depthwise convolutions with the Arm DSP extension from lines of columns. tw_line.h has
 * the layers, the layout of the weights and the cost. */
#ifndef TW_DEPTHWISE_CONV_2D_S8_DSP_H
#define TW_DEPTHWISE_CONV_2D_S8_DSP_H

#include "tw_conv_dsp.h"
#include "tw_line.h"

typedef struct {
    tw_conv_dsp base;               /* stream: tw_line.h */
    tw_line_outputs *line;          /* the function for the window and stride */
    int32_t block, rows;            /* output columns of a block, whose inputs fit a line; output rows of a strip */
} tw_depthwise_dsp;

/* scratch, aligned to words: four lines per input row of a strip. Four channels of a block of a strip are read before they are
 * written. The last four channels may overlap those before. */
TW_DECLARE_SCRATCH_FORMS(tw_depthwise_conv_2d_s8_dsp, tw_depthwise_dsp);

/* The same with outliers: filters that are zeros in the stream. Their table, of tw_outliers.h, follows it. */
TW_DECLARE_SCRATCH_FORMS(tw_depthwise_conv_2d_s8_outliers_dsp, tw_depthwise_dsp);

/* What both share. more: called after each line function with its first channel; a null pointer: nothing. */
typedef void tw_line_more(const tw_depthwise_dsp *p, const tw_line *line, int32_t channel);
void tw_depthwise_lines(const tw_depthwise_dsp *p, tw_view in, tw_view out, tw_range range, void *scratch, tw_line_more *more);

/* The same with a function for windows of three rows that is scheduled for a Cortex-M7, one that ends in _m7. */
TW_DECLARE_SCRATCH_FORMS(tw_depthwise_3x3_s8_m7, tw_depthwise_dsp);

#endif
