/* tw_mve_pair.h - inner loop of dense convolutions with the Arm MVE extension: two pixels times four filters.
 *
 * Layers: conv_2d with int8 weights, one group, dilation 1, any window (tw_conv_2d_s8_mve).
 *
 * Weights: one stream of words, read forward. Per group of four filters:
 *   4 words                    biases, each with the input's zero point times the sum of the filter's weights subtracted
 *   16 words per 16 inputs     16 weights of filter 0, of filter 1, of filter 2, of filter 3; zeros after the last input
 *   4 words, 4 words           multipliers; shifts, 0 or negative, as VRSHL takes them
 *
 * Cost: 14 instructions per 128 MACs. Fitted (layer_cycles.json): 0.13 instructions per MAC on a Cortex-M55.
 */
#ifndef TW_MVE_PAIR_H
#define TW_MVE_PAIR_H

#include "tw.h"

#define TW_MVE_FEW_OUTPUTS 16 /* most outputs that tw_mve_few_products computes */

typedef struct {
    const uint32_t *stream;
    int32_t bytes;              /* of a window, a multiple of 16 */
    int32_t filters;
    int32_t rest;               /* of the filters after the last group of four: how many tw_mve_pair_products computes */
    int32_t zero, low, high;    /* the output's zero point, the clamp */
    int32_t sign;               /* -1: round negative halves away from zero; 0: the clamp removes all negative outputs */
} tw_mve_layer;

/* Computes the outputs of `pixels` successive pixels, whose windows begin at `from` and every `step` bytes after it. */
void tw_mve_pair_products(const tw_mve_layer *layer, const int8_t *from, int32_t step, int32_t pixels, int8_t *to);

/* The same for a few pixels with at most TW_MVE_FEW_OUTPUTS outputs in all, if they are faster one by one; returns 0 for others, without
 * computing them. Only `bytes` inputs of each pixel are read, and all of them before outputs are written. */
int tw_mve_few_products(const tw_mve_layer *layer, int32_t bytes, const int8_t *from, int32_t step, int32_t pixels, int8_t *to);

#endif
