/* tw_conv_2d_s4_dsp.h - int4 convolution with int4 weights, with the Arm DSP extension: dense, not dilated, with input channels
 * in multiples of 8.
 */
#ifndef TW_CONV_2D_S4_DSP_H
#define TW_CONV_2D_S4_DSP_H

#include "tw_conv_dsp.h"

/* stream: as tw_pair_w4.h says, of inputs plus 8, so that they are half bytes without a sign: the biases are less 8 times the
 * weights. The inputs of a window come tap by tap, those k .. k + 7 of a word in the order k, k + 1, k + 4, k + 5, k + 2, k + 3,
 * k + 6, k + 7.
 * scratch: aligned to words; 4 bytes per input of a window; the outputs of two pixels as int8, each rounded up to words. Reads
 * the windows of two pixels before it writes either. */
void tw_conv_2d_s4_dsp(const tw_conv_dsp *p, const void *in, void *out, void *scratch);

/* The same for a range of the output, from and to parts of maps. */
void tw_conv_2d_s4_dsp_part(const tw_conv_dsp *p, tw_view in, tw_view out, tw_range range, void *scratch);

#endif
