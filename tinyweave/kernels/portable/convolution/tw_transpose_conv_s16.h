/* tw_transpose_conv_s16.h - transposed convolution of int16 maps with int8 weights. */
#ifndef TW_TRANSPOSE_CONV_S16_H
#define TW_TRANSPOSE_CONV_S16_H

#include "tw_conv_s16.h"

/* weights: [out.c][kernel.h][kernel.w][in.c]; stride and pad belong to the output, as in tw_transpose_conv_s8. dilation and
 * groups are 1. Needs no scratch. */
void tw_transpose_conv_s16(const tw_conv_s16 *p, const void *in, void *out);

#endif
