/* tw_pair.h - interface of the inner loops of dense convolutions with the Arm DSP extension: two pixels times four filters.
 *
 * The im2col buffer in the scratch holds the windows of both pixels, widened to 16 bits once per pair. Per quad of inputs k ..
 * k + 3 it has four words: lanes (k, k + 2) of pixel 0, of pixel 1, lanes (k + 1, k + 3) of pixel 0, of pixel 1. Weights are
 * one stream of words, read forward; its layout is in the header of each inner loop.
 */
#ifndef TW_PAIR_H
#define TW_PAIR_H

#include "tw.h"

/* One pair of pixels. The assembly loads the members in this order. */
typedef struct {
    int8_t *to_0, *to_1;        /* outputs of both pixels; equal for a single pixel */
    int32_t zero;               /* the output's zero point */
    const uint32_t *x, *x_end;  /* the widened inputs: begin and end, at least four words */
    uint32_t skip;              /* quads that the first round of the unrolled loop skips, 0 .. 3 */
    const int8_t *to_0_end;     /* end of the outputs of pixel 0 */
    int32_t sum_0, sum_1;       /* -8 times the sum of the inputs of each pixel; int4 weights only */
} tw_pair;

/* Computes all outputs of a pair, clamped to -128 .. 127. `sign` is that of tw_rescale_doubled. The stream pads the last group
 * of filters to four. */
typedef void tw_pair_products(tw_pair *pair, const uint32_t *stream, int32_t sign);

#define TW_PAIR_QUADS_UNROLLED 4

/* Sets the widened inputs of a pair: 4 * quads of them at `x`. */
static inline void tw_pair_inputs(tw_pair *pair, const uint32_t *x, int32_t quads)
{
    pair->x = x;
    pair->x_end = x + 4 * quads;
    /* the first round skips quads so that the last round ends with the inputs */
    pair->skip = (uint32_t)(-quads & (TW_PAIR_QUADS_UNROLLED - 1));
    pair->sum_0 = pair->sum_1 = 0;
}

/* Computes the outputs of whole groups of four filters; returns the end of their stream. */
typedef const uint32_t *tw_pair_fours(const tw_pair *pair, const uint32_t *stream, int32_t sign);

/* Computes all outputs of a pair; the last one to three go through a buffer of four. Inner loops save no registers for it. */
void tw_pair_tail(const tw_pair *pair, const uint32_t *stream, int32_t sign, tw_pair_fours *products);

/* A tw_pair_products from a tw_pair_fours. */
static inline void tw_pair_all(const tw_pair *pair, const uint32_t *stream, int32_t sign, tw_pair_fours *products)
{
    if ((pair->to_0_end - pair->to_0) & 3) {
        tw_pair_tail(pair, stream, sign, products);
    } else {
        products(pair, stream, sign);
    }
}

#endif
