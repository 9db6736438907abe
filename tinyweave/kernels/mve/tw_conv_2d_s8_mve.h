/* tw_conv_2d_s8_mve.h - int8 convolution with the Arm MVE extension: dense, not dilated. */
#ifndef TW_CONV_2D_S8_MVE_H
#define TW_CONV_2D_S8_MVE_H

#include "tw_conv.h"

typedef struct {
    tw_conv conv;            /* without weights, bias, multiplier and shift: `stream` holds them */
    const uint32_t *stream;  /* as tw_mve_pair.h says */
    int32_t sign;            /* as in a tw_mve_layer */
    int32_t windows;         /* of how many pixels the scratch holds them, an even number */
} tw_conv_mve;

/* scratch: `windows` windows, each up to a multiple of 16. Where windows are pixels, those of two are read again for every four
 * filters, whose outputs are then written; otherwise some windows are gathered before their outputs are written. */
void tw_conv_2d_s8_mve(const tw_conv_mve *p, const void *in, void *out, void *scratch);

/* The same for a range of the output, from and to parts of maps. */
void tw_conv_2d_s8_mve_part(const tw_conv_mve *p, tw_view in, tw_view out, tw_range range, void *scratch);

#endif
