/* tw_conv_2d_s16.h - convolution of int16 maps with int8 weights. */
#ifndef TW_CONV_2D_S16_H
#define TW_CONV_2D_S16_H

#include "tw_conv_s16.h"

/* Needs no scratch. */
void tw_conv_2d_s16(const tw_conv_s16 *p, const void *in, void *out);

#endif
