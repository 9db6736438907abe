/* tw_pair_s8.h - inner loop of int8 dense convolutions with the Arm DSP extension: two pixels times four filters.
 *
 * Layers: conv_2d with int8 weights and any window: tw_conv_2d_s8_dsp, tw_conv_2d_s8_copying_dsp.
 *
 * Weights: one stream of words, read forward. Per group of four filters:
 *   4 words            the initial sums b0, b0 + 256 * b1, b2, b2 + 256 * b3
 *   4 words per quad   of inputs k .. k + 3: lanes (k, k + 2) of filters 0 and 1, the same of filters 2 and 3, then lanes
 *                      (k + 1, k + 3) of filters 0 and 1, of filters 2 and 3
 *   8 words            per filter its multiplier and 2^(32 - exponent), both 0 if the multiplier is 0; the multipliers of
 *                      filters 0 and 2 are doubled modulo 2^32
 * A word has two lanes of 16 bits. A lane holds the weights of two filters for one input, w0 + 256 * w1. SMLAD with the word
 * accumulates s0 + 256 * s1. SMLAD with the word's SXTB16, which is w0 alone, accumulates s0. Each bias has the input's zero
 * point times the sum of the filter's weights subtracted.
 *
 * Cost: 12 instructions per 16 MACs. Fitted (layer_cycles.json, windows of whole words): 1.02 cycles per MAC on a Cortex-M4,
 * 0.88 on a Cortex-M7.
 */
#ifndef TW_PAIR_S8_H
#define TW_PAIR_S8_H

#include "tw_pair.h"

/* A tw_pair_products. */
void tw_pair_products_s8(tw_pair *pair, const uint32_t *stream, int32_t sign);

#endif
