/* tw_pair_w4.h - inner loop of dense convolutions with int4 weights and the Arm DSP extension: two pixels times four filters.
 *
 * Layers: conv_2d with int4 weights.
 *
 * Weights: one stream of words, read forward. Per group of four filters:
 *   4 words            the initial sums, as tw_lanes_w4.h combines the biases
 *   2 words per quad   of inputs k .. k + 3: lanes (k, k + 2) of all four filters, then lanes (k + 1, k + 3)
 *   8 words            per filter its multiplier and 2^(32 - exponent), both 0 if the multiplier is 0; the multiplier of
 *                      filter 0 is doubled modulo 2^32
 * A lane of 16 bits holds the weights of four filters for one input; tw_lanes_w4.h says how the four sums are separated.
 *
 * Cost: 13 instructions per 16 MACs. The planner counts the cycles of tw_pair_s8.h for it.
 */
#ifndef TW_PAIR_W4_H
#define TW_PAIR_W4_H

#include "tw_pair.h"

/* A tw_pair_products. */
void tw_pair_products_w4(tw_pair *pair, const uint32_t *stream, int32_t sign);

#endif
