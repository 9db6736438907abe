/* tw_conv_2d_s4.h - int4 convolution with int4 weights, portable C. */
#ifndef TW_CONV_2D_S4_H
#define TW_CONV_2D_S4_H

#include "tw_conv.h"

/* weights: [out.c][kernel.h][kernel.w][in.c / groups], two to a byte, each tap in bytes of its own. Needs no scratch. */
void tw_conv_2d_s4(const tw_conv *p, const void *in, void *out);

/* The same for a range of the output, from and to parts of maps. */
void tw_conv_2d_s4_part(const tw_conv *p, tw_view in, tw_view out, tw_range range);

#endif
