/* tw_depthwise_conv_2d_s8_dsp.h - int8 depthwise convolution with the Arm DSP extension: not dilated, depth multiplier 1, at least
 * four channels, and a width of the kernel and a stride along it for which tw_line.h has a function. */
#ifndef TW_DEPTHWISE_CONV_2D_S8_DSP_H
#define TW_DEPTHWISE_CONV_2D_S8_DSP_H

#include "tw_conv_dsp.h"
#include "tw_line.h"

typedef struct {
    tw_conv_dsp base;               /* the stream as tw_line.h says */
    tw_line_outputs *line;          /* that of the kernel's width and stride */
    int32_t block, rows;            /* output columns at a time, whose inputs fit into a line; output rows at a time */
} tw_depthwise_dsp;

/* scratch: aligned to words, lines of four channels for the rows of the input that `rows` outputs of a column need. Four channels
 * of a block of so many rows are read before any is written; the last four may be some of those before again. */
void tw_depthwise_conv_2d_s8_dsp(const tw_depthwise_dsp *p, const void *in, void *out, void *scratch);

/* The same for a range of the output, from and to parts of maps. */
void tw_depthwise_conv_2d_s8_dsp_part(const tw_depthwise_dsp *p, tw_view in, tw_view out, tw_range range, void *scratch);

/* The same with a line for kernels of three rows that suits a Cortex-M7, one of those of tw_line.h that end in _m7. */
void tw_depthwise_3x3_s8_m7(const tw_depthwise_dsp *p, const void *in, void *out, void *scratch);
void tw_depthwise_3x3_s8_m7_part(const tw_depthwise_dsp *p, tw_view in, tw_view out, tw_range range, void *scratch);

/* int8 depthwise convolution along maps of one column with the Arm DSP extension. The parameters are those of the maps as
 * rows, which their bytes equal; so there is no form for a range of rows. */
void tw_depthwise_column_s8_dsp(const tw_depthwise_dsp *p, const void *in, void *out, void *scratch);

#endif
