/* tw_dot_mve.h - products of inputs and weights with the Arm MVE extension, for gru, simple_rnn and stateless_lstm. */
#ifndef TW_DOT_MVE_H
#define TW_DOT_MVE_H

#include "tw.h"

/* A tw_products of filters that follow each other, modulo 2^32. `zero` is ignored: the sums that are added to include its part. */
void tw_dot_s8_mve(const int8_t *pixel, int32_t first_in, int32_t zero, const int8_t *weights, int32_t filter, int32_t first,
                   int32_t count, int32_t filters, int32_t *sums);

#endif
