/* tw_conv_2d_s8_winograd_dsp.h - int8 convolution 3x3 of stride 1, dense, not dilated, with the Arm DSP extension: fewer
 * instructions for more Flash. */
#ifndef TW_CONV_2D_S8_WINOGRAD_DSP_H
#define TW_CONV_2D_S8_WINOGRAD_DSP_H

#include "tw_conv_dsp.h"

/* stream: as tw_winograd.h says; in.c must be a multiple of four.
 * scratch: aligned to words; per input channel 64 bytes for the windows of two tiles, 32 for the columns of one, but at least 512
 * since sums lie there too; a byte per output channel, rounded up to words; per input channel 2 for padding. Reads the windows of
 * two tiles, which follow each other row by row, before it writes either. */
void tw_conv_2d_s8_winograd_dsp(const tw_conv_dsp *p, const void *in, void *out, void *scratch);

/* The same for a range of the output, from and to parts of maps. */
void tw_conv_2d_s8_winograd_dsp_part(const tw_conv_dsp *p, tw_view in, tw_view out, tw_range range, void *scratch);

#endif
