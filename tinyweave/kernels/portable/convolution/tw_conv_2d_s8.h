/* tw_conv_2d_s8.h - int8 convolution, portable C. */
#ifndef TW_CONV_2D_S8_H
#define TW_CONV_2D_S8_H

#include "tw_conv.h"

/* weights: [out.c][kernel.h][kernel.w][in.c / groups]. Needs no scratch. */
void tw_conv_2d_s8(const tw_conv *p, const void *in, void *out);

/* The same for a range of the output, from and to parts of maps. */
void tw_conv_2d_s8_part(const tw_conv *p, tw_view in, tw_view out, tw_range range);

/* sums += the products of a window, from the input channel `first_in` on, with `filters` filters, 1 or 4. */
void tw_conv_2d_products(const tw_conv *p, const tw_view *in, const tw_window *window, int32_t first_in,
                         const int8_t *weights, int32_t filters, int32_t *sums);

#endif
