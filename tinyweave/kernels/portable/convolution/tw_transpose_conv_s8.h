/* tw_transpose_conv_s8.h - int8 transposed convolution, portable C. */
#ifndef TW_TRANSPOSE_CONV_S8_H
#define TW_TRANSPOSE_CONV_S8_H

#include "tw_conv.h"

/* weights: [out.c][kernel.h][kernel.w][in.c]; stride and pad belong to the output: input row y adds to the output rows
 * y * stride.h - pad.h + [0, kernel.h). dilation and groups are 1. Needs no scratch. */
void tw_transpose_conv_s8(const tw_conv *p, const void *in, void *out);

/* The same for a range of the output, from and to parts of maps. */
void tw_transpose_conv_s8_part(const tw_conv *p, tw_view in, tw_view out, tw_range range);

#endif
