/* tw_pair.h - the inner loop of dense convolutions with the Arm DSP extension: two pixels times four filters at a time.
 *
 * Inputs are widened to 16 bits once per pair of pixels. Per four inputs k .. k + 3 the scratch holds four words: lanes
 * (k, k + 2) of pixel 0, of pixel 1, lanes (k + 1, k + 3) of pixel 0, of pixel 1.
 *
 * Weights come as one stream of words, read forward. Per four filters: four biases; per four inputs the lanes (k, k + 2) of
 * filters 0 and 1, of 2 and 3, the lanes (k + 1, k + 3) of both; then per filter its multiplier, that of filters 0 and 2
 * doubled modulo 2^32, and 2^(32 - exponent), or 0 where the multiplier is. A lane holds two weights, w0 + 256 * w1. So SMLAD
 * with a word as it is sums up s0 + 256 * s1, and with the word's SXTB16 s0. Of the biases the input's zero point times the
 * weights is taken off; that of the second of two filters is 256 times its own plus the first's.
 */
#ifndef TW_PAIR_H
#define TW_PAIR_H

#include "tw.h"

/* Products of a pair of pixels. The order is that in which the assembly reads it. */
typedef struct {
    int8_t *to_0, *to_1;        /* outputs of both pixels; equal when there is only one */
    int32_t zero;               /* the output's zero point */
    const uint32_t *x, *x_end;  /* the widened inputs, at least four words */
    uint32_t skip;              /* fours of the first round of a loop that tw_pair_inputs leaves out */
    const int8_t *to_0_end;     /* where the outputs of pixel 0 end */
} tw_pair;

/* Sets the widened inputs of a pair: `quads` times four of them, from `x` on. */
void tw_pair_inputs(tw_pair *pair, const uint32_t *x, int32_t quads);

/* Writes the outputs, clamped to -128 .. 127. `sign` as for tw_rescale_doubled. The last one to three outputs of a pixel, where no four are left, have a group of filters as others do. */
void tw_pair_products(const tw_pair *pair, const uint32_t *stream, int32_t sign);

#endif
