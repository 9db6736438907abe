/* tw_conv_scalar.h - int8 convolutions in plain C, for cores without DSP instructions and for layers that these do not suit.
 *
 * Layers: conv_2d with one group and at least 4 output channels on RISC-V; depthwise_conv_2d 3x3 with depth multiplier 1 on
 * RISC-V and Cortex-M, on a Cortex-M4, M7 and M33 only with fewer than 4 channels or with many outliers. int8 weights, dilation
 * 1, no negative multiplier, all shifts negative.
 * Weights: as the portable kernels of tw_conv.h. No scratch.
 * Cost of tw_conv_2d_s8_scalar, fitted (layer_cycles.json): 3.4 instructions per MAC on RV32IMC.
 */
#ifndef TW_CONV_SCALAR_H
#define TW_CONV_SCALAR_H

#include "tw_conv.h"

/* conv_2d. The windows of two neighbouring pixels are read together if both are inside the map's columns, else one window
 * alone. They are read for each four output channels, then for the last four, which may overlap those before. */
void tw_conv_2d_s8_scalar(const tw_conv *p, const void *in, void *out);
void tw_conv_2d_s8_scalar_part(const tw_conv *p, tw_view in, tw_view out, tw_range range);

#define TW_DEPTHWISE_RUN 24  /* at most so many outputs of a row are summed before they are written */

/* depthwise_conv_2d 3x3, stride.w 1 or 2. Runs of TW_DEPTHWISE_RUN outputs of a row, from the range's first column on, are
 * computed channel by channel. */
void tw_depthwise_3x3_s8_scalar(const tw_conv *p, const void *in, void *out);
void tw_depthwise_3x3_s8_scalar_part(const tw_conv *p, tw_view in, tw_view out, tw_range range);

/* x * multiplier / 2^31 / 2^exponent, rounded twice as tw_requantize does; twice: 2 * multiplier; less: exponent - 1. Doubling
 * the multiplier makes the first result the high word of one product. */
static inline int32_t tw_rescale_down(int32_t x, uint32_t twice, int32_t less)
{
    const int64_t product = (int64_t)x * twice;
    const int32_t high = (int32_t)(product >> 32) + (int32_t)((uint32_t)product >> 31);
    return (((high + (high >> 31)) >> less) + 1) >> 1;
}

/* Returns the output columns of `range` whose windows are inside the map's columns. */
static inline tw_span tw_within(const tw_conv *p, tw_range range)
{
    const int32_t spare = p->shape.in.w - p->shape.kernel.w + p->shape.pad.w;
    tw_span span;
    span.begin = tw_clamp((p->shape.pad.w + p->shape.stride.w - 1) / p->shape.stride.w, range.col_begin, range.col_end);
    span.end = spare < 0 ? span.begin : tw_clamp(spare / p->shape.stride.w + 1, span.begin, range.col_end);
    return span;
}

#endif
