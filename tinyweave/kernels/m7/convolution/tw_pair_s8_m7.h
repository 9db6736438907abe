/* tw_pair_s8_m7.h - two pixels times four filters of int8 weights, in the order that suits a Cortex-M7. */
#ifndef TW_PAIR_S8_M7_H
#define TW_PAIR_S8_M7_H

#include "tw_pair_s8.h"

/* A tw_pair_products, with the stream of tw_pair_s8.h. */
void tw_pair_products_s8_m7(tw_pair *pair, const uint32_t *stream, int32_t sign);

#endif
