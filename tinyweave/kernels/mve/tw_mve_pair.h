/* tw_mve_pair.h - the inner loop of dense convolutions with the Arm MVE extension: two pixels times four filters at a time.
 *
 * Weights come as one stream of words, read forward. Per four filters: four biases; per sixteen inputs as many weights of each
 * filter, 0 where there are no more inputs; four multipliers; four shifts, 0 or less, as VRSHL takes them. Of the biases the
 * input's zero point times the weights is taken off.
 */
#ifndef TW_MVE_PAIR_H
#define TW_MVE_PAIR_H

#include "tw.h"

typedef struct {
    const uint32_t *stream;
    int32_t bytes;              /* of a pixel's inputs, a multiple of 16 */
    int32_t filters;
    int32_t zero, low, high;    /* the output's zero point, the clamp */
    int32_t sign;               /* -1: rescaling must round negative halves away from zero; 0: they end at the clamp anyway */
} tw_mve_layer;

/* Writes the outputs of `pixels` pixels, one after the other, whose inputs begin at `from` and every `step` bytes after it. */
void tw_mve_pair_products(const tw_mve_layer *layer, const int8_t *from, int32_t step, int32_t pixels, int8_t *to);

#endif
