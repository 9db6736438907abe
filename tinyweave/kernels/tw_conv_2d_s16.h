/* tw_conv_2d_s16.h - convolution of int16 maps with int8 weights. */
#ifndef TW_CONV_2D_S16_H
#define TW_CONV_2D_S16_H

#include "tw_s16.h"

typedef struct {
    tw_shape in, out;
    tw_size kernel, stride, dilation;
    tw_size pad;                /* rows above, columns left of the map */
    int32_t groups;
    int32_t out_min, out_max;   /* the fused activation's clamp; all zero points are 0 */
    const int8_t *weights;      /* [out.c][kernel.h][kernel.w][in.c / groups] */
    const int64_t *bias;        /* [out.c] */
    const int16_t *multiplier;  /* [out.c], Q15 */
    const int8_t *shift;        /* [out.c], positive goes left */
} tw_conv_s16;

/* Needs no scratch. */
void tw_conv_2d_s16(const tw_conv_s16 *p, const void *in, void *out);

#endif
