/* tw_conv.h - the parameters of a two-dimensional int8 convolution, dense, grouped or depthwise. */
#ifndef TW_CONV_H
#define TW_CONV_H

#include "tw.h"

typedef struct {
    tw_shape in, out;
    tw_size kernel, stride, dilation;
    tw_size pad;                /* rows above, columns left of the map */
    int32_t groups;             /* conv_2d: 1 when dense; depthwise_conv_2d: in.c */
    int32_t in_zero, out_zero;  /* zero points */
    int32_t out_min, out_max;   /* the fused activation's clamp, within -128 .. 127 */
    const int8_t *weights;      /* zero point 0 */
    const int32_t *bias;        /* [out.c], or a null pointer */
    const int32_t *multiplier;  /* [out.c], Q31 */
    const int8_t *shift;        /* [out.c], -31 .. 30, positive goes left */
} tw_conv;

#endif
