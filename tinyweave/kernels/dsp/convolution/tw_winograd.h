/* tw_winograd.h - 3x3 convolutions of stride 1 by Winograd's F(2x2, 3x3), exact in integers, with the Arm DSP extension.
 *
 * A tile is 2 x 2 outputs; its window 4 x 4 inputs d. With
 *
 *         1  0 -1  0             2  0  0
 *   B' =  0  1  1  0       G =   1  1  1       A' =  1  1  1  0
 *         0 -1  1  0             1 -1  1             0  1 -1  1
 *         0 -1  0  1             0  0  2
 *
 * four times the outputs of filters w are A' (sum over channels of (G w G') * (B' d B)) A: 16 products instead of 36. G is
 * twice what is usual, so that nothing is broken; all sums wrap modulo 2^32, and only the outputs must fit.
 * Source: A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural Networks (arXiv 1509.09308).
 *
 * Rows and columns of 4 x 4 positions come in the order 1, 2, 0, 3 everywhere below: of a row of products m, 1 and 2 are summed
 * up one after the other, a after the first and b after the second, so that b + m0 and 2 * a - b + m3 are the row times A.
 */
#ifndef TW_WINOGRAD_H
#define TW_WINOGRAD_H

#include "tw.h"

/* Two tiles; the order of members is that in which the assembly reads it. A word is a pair of lanes: of four channels k .. k + 3 there are two words, (k, k + 2) and (k + 1, k + 3). */
typedef struct {
    uint32_t *x;             /* their windows B' d B: [word][position][tile] */
    int32_t words;           /* per position, at least two */
    int32_t *sums;           /* 64, of four filters: [row of positions][column of A][tile][filter] */
    int8_t *to[8];           /* outputs, per tile upper left, upper right, lower left, lower right */
    int32_t channels, zero;  /* of the output: its filters, its zero point */
} tw_winograd;

/* The columns of windows, B' d: of `words` / 2 times four channels that four rows have at from[0] .. from[3], to
 * [word][position]. */
void tw_winograd_columns(uint32_t *to, const int8_t *const from[4], int32_t words);

/* The window B' d B of tile 0 or 1 from its columns, which are two and two side by side. */
void tw_winograd_window(const tw_winograd *tiles, int32_t tile, const uint32_t *left, const uint32_t *right);

/* Writes the outputs, clamped to -128 .. 127, of both tiles or of tile 0 alone. `sign` as for tw_rescale_doubled.
 * stream: per four filters four times their biases; of each position, word by word, that of each filter's G w G'; then per filter
 * its multiplier and 2^(31 - exponent), or 0 where the multiplier is. Of the biases the input's zero point times the weights is
 * taken off. */
void tw_winograd_outputs(const tw_winograd *tiles, int32_t count, const uint32_t *stream, int32_t sign);

#endif
