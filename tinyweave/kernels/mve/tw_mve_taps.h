/* tw_mve_taps.h - inner loop of depthwise convolutions with the Arm MVE extension: sixteen channels, tap by tap.
 *
 * Layers: depthwise_conv_2d with depth multiplier 1 and int8 weights. No filter has -128 in two taps that are added in 16 bits.
 *
 * Weights: one stream of words. Per block of sixteen channels, the last padded with zeros:
 *   16 words               biases, each with the input's zero point times the sum of the channel's weights subtracted
 *   4 words per tap        sixteen weights, in the order of the channels
 *   16 words, 16 words     multipliers; shifts, 0 or negative, as VRSHL takes them
 * Biases, multipliers and shifts are in the order of channels that VMULLB, VMULLT, VMOVLB and VMOVLT leave: 0, 4, 8, 12, 2, 6,
 * 10, 14, 1, 5, 9, 13, 3, 7, 11, 15.
 *
 * Cost: 23 instructions per two taps of sixteen channels, 32 MACs; 17 instructions per two taps of the last eight channels or
 * fewer. Fitted (layer_cycles.json): 0.76 instructions per MAC on a Cortex-M55.
 */
#ifndef TW_MVE_TAPS_H
#define TW_MVE_TAPS_H

#include "tw_mve.h"

/* The places of channels 0, 2, 4 and 6 in this order. */
#define TW_MVE_EVEN {0, 4, 1, 5}

/* A layer and the taps of a window. The assembly loads some members at fixed offsets. */
typedef struct {
    const uint32_t *stream;
    int32_t *tap;             /* per tap its offset from the `x` of tw_mve_taps_products, or tw_mve_outside */
    const int8_t *zeros;      /* zero points for taps in the padding, one per channel, rounded up to 16 */
    int32_t taps;
    int32_t above, below;     /* taps in rows above the map and below it */
    int32_t zero, low, high;  /* the output's zero point, the clamp */
    int32_t sign;             /* -1: round negative halves away from zero; 0: the clamp removes all negative outputs */
    int32_t reads_on;         /* whether sixteen channels may be read where fewer are left, which is faster */
    uint32_t even[4];         /* TW_MVE_EVEN */
} tw_mve_taps;

/* The offset of the zero points from `x`; in plain C a marker. */
static inline int32_t tw_mve_outside(const int8_t *zeros, const int8_t *x)
{
#if TW_HAS_MVE
    return (int32_t)((uint32_t)zeros - (uint32_t)x);
#else
    (void)zeros; /* may be too far away for an offset of 32 bits */
    (void)x;
    return INT32_MIN;
#endif
}

/* Computes the outputs of `pixels` successive pixels, at least one, of `channels` channels. x: where the offsets of the first
 * pixel's taps start; x_step: bytes to the next window. The offsets of taps in rows outside the map are moved back by x_step for
 * each further pixel. */
void tw_mve_taps_products(const tw_mve_taps *taps, const int8_t *x, int32_t x_step, int32_t pixels, int32_t channels, int8_t *to);

#endif
