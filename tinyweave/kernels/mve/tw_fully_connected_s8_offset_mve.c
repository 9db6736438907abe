/* tw_fully_connected_s8_offset_mve.c - int8 dense layer whose weights have a zero point, with the Arm MVE extension.
 * tw_fully_connected_mve.h has the layers, the layout of the weights and the cost. */
#include "tw_fully_connected_mve.h"

#include "tw_fully_connected_mve_loop.h"

TW_FULLY_CONNECTED_MVE_FORMS(tw_fully_connected_s8_offset_mve, tw_fully_connected_offset, &p->dense, p->weights_zero)
