/* tw_pair_w4.h - two pixels times four filters of int4 weights, with the Arm DSP extension.
 *
 * The stream: per four filters four words where sums begin; per four inputs a word with the lanes (k, k + 2) and one with the
 * lanes (k + 1, k + 3) of all four filters, both as tw_lanes_w4.h says; then per filter its multiplier, that of filter 0 doubled
 * modulo 2^32, and 2^(32 - exponent), or 0 where the multiplier is.
 */
#ifndef TW_PAIR_W4_H
#define TW_PAIR_W4_H

#include "tw_pair.h"

/* A tw_pair_products. */
void tw_pair_products_w4(tw_pair *pair, const uint32_t *stream, int32_t sign);

#endif
