/* tw_pair_s8.h - two pixels times four filters of int8 weights, with the Arm DSP extension.
 *
 * The stream: per four filters four biases; per four inputs the lanes (k, k + 2) of filters 0 and 1, of 2 and 3, the lanes
 * (k + 1, k + 3) of both; then per filter its multiplier, that of filters 0 and 2 doubled modulo 2^32, and 2^(32 - exponent),
 * or 0 where the multiplier is. A lane holds two weights, w0 + 256 * w1. So SMLAD with a word as it is sums up s0 + 256 * s1,
 * and with the word's SXTB16 s0. Of the biases the input's zero point times the weights is taken off; that of the second of
 * two filters is 256 times its own plus the first's.
 */
#ifndef TW_PAIR_S8_H
#define TW_PAIR_S8_H

#include "tw_pair.h"

/* A tw_pair_products. */
void tw_pair_products_s8(tw_pair *pair, const uint32_t *stream, int32_t sign);

#endif
