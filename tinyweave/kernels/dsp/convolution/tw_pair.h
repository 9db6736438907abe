/* tw_pair.h - the inner loop of dense convolutions with the Arm DSP extension: two pixels times four filters at a time.
 *
 * Inputs are widened to 16 bits once per pair of pixels. Per four inputs k .. k + 3 the scratch holds four words: lanes
 * (k, k + 2) of pixel 0, of pixel 1, lanes (k + 1, k + 3) of pixel 0, of pixel 1. Weights come as one stream of words, read
 * forward, as the kernel that multiplies says.
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
    int32_t sum_0, sum_1;       /* of the inputs of both, times -8; for int4 weights only */
} tw_pair;

/* Writes the outputs, clamped to -128 .. 127. `sign` as for tw_rescale_doubled. The last one to three outputs of a pixel, where
 * no four are left, have a group of filters as others do. */
typedef void tw_pair_products(tw_pair *pair, const uint32_t *stream, int32_t sign);

#define TW_PAIR_QUADS_UNROLLED 4

/* Sets the widened inputs of a pair: `quads` times four of them, from `x` on. */
static inline void tw_pair_inputs(tw_pair *pair, const uint32_t *x, int32_t quads)
{
    pair->x = x;
    pair->x_end = x + 4 * quads;
    /* the first round of the unrolled loop begins so late that the last one ends with it */
    pair->skip = (uint32_t)(-quads & (TW_PAIR_QUADS_UNROLLED - 1));
    pair->sum_0 = pair->sum_1 = 0;
}

/* The outputs of all groups of four filters; returns where the stream goes on. */
typedef const uint32_t *tw_pair_fours(const tw_pair *pair, const uint32_t *stream, int32_t sign);

/* A tw_pair_products by means of what computes groups of four filters. */
static inline void tw_pair_all(const tw_pair *pair, const uint32_t *stream, int32_t sign, tw_pair_fours *products)
{
    const int32_t count = (int32_t)(pair->to_0_end - pair->to_0), rest = count & 3, fours = count - rest;
    if (rest == 0) {
        products(pair, stream, sign);
        return;
    }
    tw_pair part = *pair;
    if (fours > 0) {
        part.to_0_end -= rest;
        stream = products(&part, stream, sign);
    }
    int8_t last_0[4], last_1[4];
    part.to_0 = last_0;
    part.to_1 = pair->to_1 == pair->to_0 ? last_0 : last_1;
    part.to_0_end = last_0 + 4;
    products(&part, stream, sign);
    for (int32_t i = 0; i < rest; ++i) {
        pair->to_1[fours + i] = part.to_1[i];
        pair->to_0[fours + i] = last_0[i];
    }
}

#endif
