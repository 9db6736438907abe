/* tw_conv_scalar.h - int8 convolutions for cores with many registers that multiply one pair of numbers at a time.
 *
 * They compute what those of tw_conv.h do, of which all multipliers are 0 or more and all shifts negative. Neither dilated nor in
 * groups. Need no scratch. Their loops load a weight once for several pixels, and an input once for several filters or taps.
 */
#ifndef TW_CONV_SCALAR_H
#define TW_CONV_SCALAR_H

#include "tw_conv.h"

/* int8 convolution of at least four filters. Of two neighbouring pixels whose windows lie between the left and the right edge of
 * the map, else of one, the windows are read for every four outputs, then for the last four. */
void tw_conv_2d_s8_scalar(const tw_conv *p, const void *in, void *out);
void tw_conv_2d_s8_scalar_part(const tw_conv *p, tw_view in, tw_view out, tw_range range);

#define TW_DEPTHWISE_RUN 24  /* outputs of a row at most that are computed before they are written */

/* int8 depthwise convolution of 3x3 taps, as many outputs as inputs, stride.w 1 or 2. Of TW_DEPTHWISE_RUN outputs of a row, from
 * the range's first column on, the windows are read channel by channel. */
void tw_depthwise_3x3_s8_scalar(const tw_conv *p, const void *in, void *out);
void tw_depthwise_3x3_s8_scalar_part(const tw_conv *p, tw_view in, tw_view out, tw_range range);

/* x * twice * 2^(-32 - 1 - less), rounded twice as tw_requantize does, where `twice` is two times the multiplier and `less` the
 * exponent less one: the high word of one product. */
static inline int32_t tw_rescale_down(int32_t x, uint32_t twice, int32_t less)
{
    const int64_t product = (int64_t)x * twice;
    const int32_t high = (int32_t)(product >> 32) + (int32_t)((uint32_t)product >> 31);
    return (((high + (high >> 31)) >> less) + 1) >> 1;
}

/* Output columns [begin, end) of `range` whose windows lie between the left and the right edge of the map. */
static inline tw_span tw_within(const tw_conv *p, tw_range range)
{
    const int32_t spare = p->in.w - p->kernel.w + p->pad.w;
    tw_span span;
    span.begin = tw_clamp((p->pad.w + p->stride.w - 1) / p->stride.w, range.col_begin, range.col_end);
    span.end = spare < 0 ? span.begin : tw_clamp(spare / p->stride.w + 1, span.begin, range.col_end);
    return span;
}

#endif
