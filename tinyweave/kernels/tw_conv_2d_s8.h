/* tw_conv_2d_s8.h - int8 convolution, portable C. */
#ifndef TW_CONV_2D_S8_H
#define TW_CONV_2D_S8_H

#include "tw_conv.h"

/* weights: [out.c][kernel.h][kernel.w][in.c / groups]. Needs no scratch. */
void tw_conv_2d_s8(const tw_conv *p, const void *in, void *out);

/* The same for a range of the output, from and to parts of maps. */
void tw_conv_2d_s8_part(const tw_conv *p, tw_view in, tw_view out, tw_range range);

#endif
