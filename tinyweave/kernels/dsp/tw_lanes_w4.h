/* tw_lanes_w4.h - layout of int4 weights for SMLAD: the weights of four filters in a lane of 16 bits.
 *
 * Layers: conv_2d and fully_connected with int4 weights on cores with the Arm DSP extension.
 *
 * A lane holds four half bytes, w0 + 8, w1 + 8, w2 + 8 and w3 of filters 0 .. 3, lowest first. SMLAD with a word of two lanes,
 * as it is or masked, accumulates four combinations of the filters' sums s0 .. s3; X is the sum of the inputs:
 *
 *   a = s0 + 8 * X                lane & 0x000F
 *   b = a + 16 * (s1 + 8 * X)     lane & 0x00FF, by UXTB16
 *   c = 256 * (s2 + 8 * X)        lane & 0x0F00
 *   d = b + c + 4096 * s3         lane
 *
 * Each group of filters in the stream begins with the biases b0 .. b3 in the same combinations: b0, b0 + 16 * b1, 256 * b2, and
 * the last two plus 4096 * b3. Each bias has the input's zero point times the sum of the filter's weights subtracted. With
 * t = -8 * X, the initial sums are a + t, b + 17 * t, c + 256 * t, d + 273 * t. All sums are modulo 2^32.
 */
#ifndef TW_LANES_W4_H
#define TW_LANES_W4_H

#include "tw_dsp.h"

/* Sets the four initial sums; t: -8 times the sum of the inputs. */
static inline void tw_begin_w4(const uint32_t *stream, int32_t t, int32_t *sums)
{
    const uint32_t once = (uint32_t)t;
    sums[0] = tw_signed(stream[0] + once);
    sums[1] = tw_signed(stream[1] + 17 * once);
    sums[2] = tw_signed(stream[2] + 256 * once);
    sums[3] = tw_signed(stream[3] + 273 * once);
}

/* Adds the products of two inputs, the lanes of `x`, with four filters. */
static inline void tw_add_w4(uint32_t x, uint32_t weights, int32_t *sums)
{
    sums[0] = tw_smlad(x, weights & 0x000F000F, sums[0]);
    sums[1] = tw_smlad(x, weights & 0x00FF00FF, sums[1]);
    sums[2] = tw_smlad(x, weights & 0x0F000F00, sums[2]);
    sums[3] = tw_smlad(x, weights, sums[3]);
}

/* Filter i's sum times 2^left, left 0 or 1; filter 0's sum is not shifted. */
static inline int32_t tw_sum_w4(const int32_t *sums, int32_t i, int32_t left)
{
    const uint32_t a = (uint32_t)sums[0], b = (uint32_t)sums[1], c = (uint32_t)sums[2], d = (uint32_t)sums[3];
    switch (i) {
    case 0:
        return sums[0];
    case 1:
        return tw_signed(b - a) >> (4 - left);
    case 2:
        return tw_signed(c) >> (8 - left);
    default:
        return tw_signed(d - b - c) >> (12 - left);
    }
}

#endif
