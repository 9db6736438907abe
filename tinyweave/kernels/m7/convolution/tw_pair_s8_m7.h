/* tw_pair_s8_m7.h - tw_pair_s8.h scheduled for a Cortex-M7, with the same layers and layout of the weights. */
#ifndef TW_PAIR_S8_M7_H
#define TW_PAIR_S8_M7_H

#include "tw_pair_s8.h"

/* A tw_pair_products. */
void tw_pair_products_s8_m7(tw_pair *pair, const uint32_t *stream, int32_t sign);

#endif
