/* tw_depthwise_pixel_s8_dsp.h - int8 depthwise convolution of a map of one column to one pixel, as a call that adds a row to a stream
 * has it, with the Arm DSP extension: neither padded nor dilated, depth multiplier 1, at least four channels. */
#ifndef TW_DEPTHWISE_PIXEL_S8_DSP_H
#define TW_DEPTHWISE_PIXEL_S8_DSP_H

#include "tw_conv_dsp.h"

/* stream: as tw_taps.h says, of a window of any height. Needs no scratch. Four channels are read before they are written; the last
 * four may be some of those before again. */
void tw_depthwise_pixel_s8_dsp(const tw_conv_dsp *p, const void *in, void *out);

#endif
