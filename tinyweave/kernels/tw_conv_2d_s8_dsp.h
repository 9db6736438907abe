/* tw_conv_2d_s8_dsp.h - int8 convolution with the Arm DSP extension: dense, not dilated. */
#ifndef TW_CONV_2D_S8_DSP_H
#define TW_CONV_2D_S8_DSP_H

#include "tw_conv_dsp.h"

/* stream: as tw_pair.h says, the inputs of a window in the order [kernel.h][kernel.w][in.c], zeros up to a multiple of four.
 * scratch: aligned to words; 4 bytes per input of a window and, where in.c is no multiple of four, 1 more, rounded up to
 * multiples of four inputs. Reads the windows of two pixels before it writes either. */
void tw_conv_2d_s8_dsp(const tw_conv_dsp *p, const void *in, void *out, void *scratch);

/* The same for a range of the output, from and to parts of maps. */
void tw_conv_2d_s8_dsp_part(const tw_conv_dsp *p, tw_view in, tw_view out, tw_range range, void *scratch);

#endif
