/* tw_pair_s8.h - inner loop of int8 dense convolutions with the Arm DSP extension: two pixels times four filters.
 * Layers: conv_2d with int8 weights and any window: tw_conv_2d_s8_dsp, tw_conv_2d_s8_copying_dsp.
 * Weights: the stream of tw_conv_dsp.h.
 * Cost: 12 instructions per 16 MACs. Fitted (layer_cycles.json, windows of whole words): 1.02 cycles per MAC on a Cortex-M4,
 * 0.88 on a Cortex-M7.
 */
#ifndef TW_PAIR_S8_H
#define TW_PAIR_S8_H

#include "tw_pair.h"

/* A tw_pair_products. */
void tw_pair_products_s8(tw_pair *pair, const uint32_t *stream, int32_t sign);

#endif
