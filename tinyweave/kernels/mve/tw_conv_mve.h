/* tw_conv_mve.h - int8 convolutions with the Arm MVE extension. A _part form computes a range of the output, from and to parts of
 * maps. */
#ifndef TW_CONV_MVE_H
#define TW_CONV_MVE_H

#include "tw_conv.h"

/* Convolution: dense, not dilated. */
typedef struct {
    tw_conv conv;            /* without weights, bias, multiplier and shift: `stream` holds them */
    const uint32_t *stream;  /* as tw_mve_pair.h says */
    int32_t sign;            /* as in a tw_mve_layer */
    int32_t windows;         /* of how many pixels the scratch holds them, an even number */
} tw_conv_mve;

/* scratch: `windows` windows, each up to a multiple of 16. Where windows are pixels, those of two are read again for every four
 * filters, whose outputs are then written; otherwise some windows are gathered before their outputs are written. */
void tw_conv_2d_s8_mve(const tw_conv_mve *p, const void *in, void *out, void *scratch);
void tw_conv_2d_s8_mve_part(const tw_conv_mve *p, tw_view in, tw_view out, tw_range range, void *scratch);

/* Depthwise convolution with depth multiplier 1, sixteen channels at a time. Where 2, 4 or 8 channels, or one, are all and the
 * stride along rows is 1, sixteen outputs of neighbouring pixels are as many, and the stream holds the channels again and again. */
typedef struct {
    tw_conv conv;            /* without weights, bias, multiplier and shift: `stream` holds them */
    const uint32_t *stream;  /* as tw_mve_taps.h says */
    int32_t sign;            /* as in a tw_mve_taps */
} tw_depthwise_mve;

/* scratch: aligned to words; a word per tap, the channels of a pixel up to a multiple of 16, sixteen bytes per tap. All
 * inputs of sixteen outputs are read before these are written. */
void tw_depthwise_conv_2d_s8_mve(const tw_depthwise_mve *p, const void *in, void *out, void *scratch);
void tw_depthwise_conv_2d_s8_mve_part(const tw_depthwise_mve *p, tw_view in, tw_view out, tw_range range, void *scratch);

#endif
