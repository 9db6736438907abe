/* tw_few_dsp.h - the inputs of kernels for layers with few filters, with the Arm DSP extension.
 *
 * Layers: fully_connected, and conv_2d of single pixels. Stream of a group of filters: the initial sums, then 2 words per quad
 * of inputs and filter, lanes (k, k + 2) and (k + 1, k + 3) of its weights. A lane holds one weight, not those of two filters:
 * no sum is too large, and no weight is unpacked. The stream is longer, but not longer than that of a group of eight filters.
 *
 * If the number of inputs is not a multiple of four, the last quad overlaps the quad before: it ends with the last input, and
 * the weights of the inputs that both quads hold are 0 in the last one. So the last quad needs no code of its own.
 */
#ifndef TW_FEW_DSP_H
#define TW_FEW_DSP_H

#include "tw_dsp.h"

/* Returns `depth` inputs, one to three, as the last bytes of a word; the first bytes, whose weights are 0, are 0. */
static inline uint32_t tw_few_word(const int8_t *x, int32_t depth)
{
    uint32_t word = 0;
    for (int32_t i = 0; i < depth; ++i) {
        word = word >> 8 | (uint32_t)(uint8_t)x[i] << 24;
    }
    return word;
}

/* Returns the bytes, at most 0, from the end of the whole quads of `depth` inputs to the last quad; 0 if all quads are whole. */
static inline int32_t tw_few_back(int32_t depth) { return -(-depth & 3); }

/* Loads the quad at `pointer` and widens it to lanes (k, k + 2) in r9 and (k + 1, k + 3) in r8. */
#define TW_FEW_INPUTS(pointer)            \
    "ldr r8, [" pointer "], #4\n"         \
    "sxtb16 r9, r8\n"                     \
    "sxtb16 r8, r8, ror #8\n"

/* Adds to a sum the products of the quad with the weights in two registers. */
#define TW_FEW_PRODUCTS(sum, other, even, odd)    \
    "smlad " sum ", r9, " even ", " sum "\n"      \
    "smlad " other ", r8, " odd ", " other "\n"

#endif
