/* tw_fully_connected_s8_mve.h - int8 dense layer with the Arm MVE extension. */
#ifndef TW_FULLY_CONNECTED_S8_MVE_H
#define TW_FULLY_CONNECTED_S8_MVE_H

#include "tw_fully_connected.h"

/* Four filters share each input. Of the biases the input's zero point times the weights is taken off, so in_zero is 0; all
 * shifts are at most -2. Rescales each sum with a single rounding. Needs no scratch. */
void tw_fully_connected_s8_mve(const tw_fully_connected *p, const void *in, void *out);

/* The same for a range of the output, from and to parts of maps. */
void tw_fully_connected_s8_mve_part(const tw_fully_connected *p, tw_view in, tw_view out, tw_range range);

#endif
