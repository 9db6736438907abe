/* tw_dot_w4.h - dot products of int8 inputs and int4 weights: the inner loops of convolutions and dense layers. */
#ifndef TW_DOT_W4_H
#define TW_DOT_W4_H

#include "tw_int4.h"

/* sums[k] += sum over i < count of (x[i] - zero) * weight first + i of filter k, for four filters, `filter` bytes each. */
void tw_dot4_w4(const int8_t *x, int32_t zero, const int8_t *weights, int32_t filter, int32_t first, int32_t count,
                int32_t *sums);

/* The same for one filter. */
void tw_dot1_w4(const int8_t *x, int32_t zero, const int8_t *weights, int32_t first, int32_t count, int32_t *sum);

/* A tw_products. */
static inline void tw_dot_w4(const int8_t *pixel, int32_t first_in, int32_t zero, const int8_t *weights, int32_t filter,
                             int32_t first, int32_t count, int32_t filters, int32_t *sums)
{
    if (filters == 4) {
        tw_dot4_w4(pixel + first_in, zero, weights, filter, first, count, sums);
    } else {
        for (int32_t i = 0; i < filters; ++i) {
            tw_dot1_w4(pixel + first_in, zero, weights + i * filter, first, count, sums + i);
        }
    }
}

#endif
