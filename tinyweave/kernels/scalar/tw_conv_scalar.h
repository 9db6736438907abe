/* tw_conv_scalar.h - int8 convolutions in plain C, for cores without DSP instructions and for layers that these do not suit.
 *
 * Layers: conv_2d with one group on RISC-V and Cortex-M3; depthwise_conv_2d with depth multiplier 1 on a Cortex-M3; the same 3x3
 * on RISC-V and Cortex-M, on a Cortex-M4, M7 and M33 only with fewer than 4 channels or with many outliers. int8 weights,
 * dilation 1, no negative multiplier (in a stream none below 2^30), all shifts negative.
 * Weights of the 3x3 kernel: as the portable ones of tw_conv.h. Of the others: one stream, read forward. Per group of two
 * filters, the last filled up with a filter of 0:
 *   2 words    the initial sums: bias, less the input's zero point times the sum of the filter's weights
 *   1 word     per two inputs of the window, in the order [row][column][channel], the last filled up with a 0: the weights of
 *              the first filter, then those of the second
 *   3 words    multipliers, doubled; then per filter a byte, its exponent less 1
 */
#ifndef TW_CONV_SCALAR_H
#define TW_CONV_SCALAR_H

#include "tw_conv.h"

typedef struct {
    tw_conv_shape conv;
    const uint32_t *stream;  /* weights as above */
} tw_conv_scalar;

/* conv_2d. Any two weights that share a word of the stream and a filter have at most 255 in absolute values together. scratch,
 * aligned to words: 4 bytes per input of a window, of an even number. Both windows are read before either pixel is written. */
TW_DECLARE_SCRATCH_FORMS(tw_conv_2d_s8_scalar, tw_conv_scalar);

/* The same with an even number of input channels and less scratch, aligned to words: 8 bytes per row of a window, or if a window is
 * partly outside of the map, 8 bytes per tap and a pixel of the input. Both windows are read for each two filters. */
TW_DECLARE_SCRATCH_FORMS(tw_conv_2d_s8_lean_scalar, tw_conv_scalar);

/* depthwise_conv_2d with at least 8 channels on a Cortex-M3: eight channels of a pixel at a time, the last eight of which may
 * overlap those before. No scratch. Stream: per group of eight channels 8 words, the initial sums; 2 words per tap of the
 * window; 10 words of rescaling. Counted: 27 instructions per 8 MACs, 18 per row of the window, and 108 per group. */
TW_DECLARE_FORMS(tw_depthwise_conv_2d_s8_m3, tw_conv_scalar);

#define TW_DEPTHWISE_RUN 24  /* at most so many outputs of a row are summed before they are written */

/* depthwise_conv_2d 3x3, stride.w 1 or 2. No scratch. Runs of TW_DEPTHWISE_RUN outputs of a row, from the range's first column on, are
 * computed channel by channel. */
TW_DECLARE_FORMS(tw_depthwise_3x3_s8_scalar, tw_conv);

/* x * multiplier / 2^31 / 2^exponent, rounded twice as tw_requantize does; twice: 2 * multiplier; less: exponent - 1. Doubling
 * the multiplier makes the first result the high word of one product. */
static inline int32_t tw_rescale_down(int32_t x, uint32_t twice, int32_t less)
{
#ifdef TW_NO_LONG_PRODUCTS
    const int32_t high = tw_high_mul(x, (int32_t)(twice >> 1));
#else
    const int64_t product = (int64_t)x * twice;
    const int32_t high = (int32_t)(product >> 32) + (int32_t)((uint32_t)product >> 31);
#endif
    return (((high + (high >> 31)) >> less) + 1) >> 1;
}

#if defined(__ARM_ARCH_7M__) && defined(__GNUC__)
/* The same in assembly, then the zero point added and saturated to int8. r12: twice as int32, so the sum is added to the high
 * word; r0: less; r3: zero point. Clobbers r1 and lr. */
#define TW_RESCALED(sum)                       \
    "smull lr, r1, " sum ", r12\n"             \
    "add r1, r1, " sum "\n"                    \
    "add.w r1, r1, lr, lsr #31\n"              \
    "add.w r1, r1, r1, asr #31\n"              \
    "asrs r1, r0\n"                            \
    "adds r1, #1\n"                            \
    "add.w " sum ", r3, r1, asr #1\n"          \
    "ssat " sum ", #8, " sum "\n"
#endif

/* Returns the output columns of `range` whose windows are inside the map's columns. */
static inline tw_span tw_within(const tw_conv_shape *p, tw_range range)
{
    const int32_t spare = p->in.w - p->kernel.w + p->pad.w;
    tw_span span;
    span.begin = tw_clamp((p->pad.w + p->stride.w - 1) / p->stride.w, range.col_begin, range.col_end);
    span.end = spare < 0 ? span.begin : tw_clamp(spare / p->stride.w + 1, span.begin, range.col_end);
    return span;
}

#endif
