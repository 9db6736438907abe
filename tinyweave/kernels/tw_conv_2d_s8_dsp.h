/* tw_conv_2d_s8_dsp.h - int8 convolution with the Arm DSP extension: dense, not dilated. */
#ifndef TW_CONV_2D_S8_DSP_H
#define TW_CONV_2D_S8_DSP_H

#include "tw_conv_dsp.h"

/* stream: as tw_pair.h says. The inputs of a window come row by row, of each row as many as make fours; then what is left over of
 * all rows; then zeros up to a multiple of four.
 * scratch: aligned to words; 16 bytes per four inputs of a window; where pixels are no whole words, room for what is left over
 * of all rows of both, and before that, where windows meet padding, for a row; each rounded up to words. Reads the windows of two pixels
 * before it writes either. */
void tw_conv_2d_s8_dsp(const tw_conv_dsp *p, const void *in, void *out, void *scratch);

/* The same for a range of the output, from and to parts of maps. */
void tw_conv_2d_s8_dsp_part(const tw_conv_dsp *p, tw_view in, tw_view out, tw_range range, void *scratch);

#endif
