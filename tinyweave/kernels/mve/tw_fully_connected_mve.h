/* tw_fully_connected_mve.h - int8 dense layer with the Arm MVE extension: one input row times four filters.
 *
 * Layers: fully_connected with int8 weights; all shifts at most -2.
 * Weights: as the portable kernel, [filter][input]. Each bias has the input's zero point times the sum of the filter's weights
 * subtracted, so in_zero is 0.
 * Cost: 10 instructions per 64 MACs. Fitted (layer_cycles.json): 0.14 instructions per MAC on a Cortex-M55.
 */
#ifndef TW_FULLY_CONNECTED_MVE_H
#define TW_FULLY_CONNECTED_MVE_H

#include "tw_fully_connected.h"

/* Rescales each sum with a single rounding. No scratch. */
TW_DECLARE_ROW_FORMS(tw_fully_connected_s8_mve, tw_fully_connected);

#endif
