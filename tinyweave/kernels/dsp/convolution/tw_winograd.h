/* tw_winograd.h - 3x3 convolutions by Winograd's F(2x2, 3x3), exact in integers, with the Arm DSP extension.
 *
 * Layers: conv_2d 3x3 of stride 1 with int8 weights (tw_conv_2d_s8_winograd_dsp).
 *
 * A tile is 2 x 2 outputs; its window is 4 x 4 inputs d. With
 *
 *         1  0 -1  0             2  0  0
 *   B' =  0  1  1  0       G =   1  1  1       A' =  1  1  1  0
 *         0 -1  1  0             1 -1  1             0  1 -1  1
 *         0 -1  0  1             0  0  2
 *
 * four times the outputs of a filter w are A' (sum over channels of (G w G') * (B' d B)) A: 16 products instead of 36. G is
 * twice the usual matrix, so that all its entries are integers. All sums wrap modulo 2^32; only four times an output's sum must
 * fit.
 * Source: A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural Networks (arXiv 1509.09308).
 *
 * Rows and columns of the 4 x 4 positions are stored in the order 1, 2, 0, 3. For a row of products m, let a = m1 and b = m1 +
 * m2: then b + m0 and 2 * a - b + m3 are the row times A.
 *
 * Cost: 11 instructions per 16 products, which replace 36 MACs of the direct convolution. Fitted (layer_cycles.json): 0.52
 * cycles per MAC of the direct convolution on a Cortex-M4, 0.41 on a Cortex-M7; transforms not included.
 */
#ifndef TW_WINOGRAD_H
#define TW_WINOGRAD_H

#include "tw.h"

/* Two tiles. The assembly loads the members in this order. Four channels k .. k + 3 are two words of two lanes, (k, k + 2) and
 * (k + 1, k + 3). */
typedef struct {
    uint32_t *x;             /* the transformed windows B' d B: [word][position][tile] */
    int32_t words;           /* per position, at least two */
    int32_t *sums;           /* 64 of four filters: [row of positions][column of A][tile][filter] */
    int8_t *to[8];           /* per tile its outputs: upper left, upper right, lower left, lower right */
    int32_t channels, zero;  /* output channels; the output's zero point */
} tw_winograd;

/* Computes columns of B' d, as [word][position], from `words` / 2 times four channels of the four rows at from[0] .. from[3].
 */
void tw_winograd_columns(uint32_t *to, const int8_t *const from[4], int32_t words);

/* Computes the window B' d B of tile 0 or 1 from the two left and the two right columns of B' d. */
void tw_winograd_window(const tw_winograd *tiles, int32_t tile, const uint32_t *left, const uint32_t *right);

/* Computes the outputs of `count` tiles, 1 or 2, clamped to -128 .. 127. `sign` is that of tw_rescale_doubled. stream, per
 * group of four filters: four times each bias; per position and word, a word of G w G' of each filter; per filter its
 * multiplier and 2^(31 - exponent), both 0 if the multiplier is 0. Each bias has the input's zero point times the sum of the
 * filter's weights subtracted. */
void tw_winograd_outputs(const tw_winograd *tiles, int32_t count, const uint32_t *stream, int32_t sign);

#endif
