/* tw_dot_s4.h - dot products of int4 inputs and int4 weights: the inner loops of convolutions and dense layers. */
#ifndef TW_DOT_S4_H
#define TW_DOT_S4_H

#include "tw_int4.h"

/* sums[k] += sum over i < count of (input first_in + i - zero) * weight first + i of filter k, for four filters, `filter` bytes
 * each. `first` is even; fast where first_in is even, too, as it is but in every other group of odd depth. */
void tw_dot4_s4(const int8_t *pixel, int32_t first_in, int32_t zero, const int8_t *weights, int32_t filter, int32_t first,
                int32_t count, int32_t *sums);

/* The same for one filter. */
void tw_dot1_s4(const int8_t *pixel, int32_t first_in, int32_t zero, const int8_t *weights, int32_t first, int32_t count,
                int32_t *sum);

/* A tw_products. */
static inline void tw_dot_s4(const int8_t *pixel, int32_t first_in, int32_t zero, const int8_t *weights, int32_t filter,
                             int32_t first, int32_t count, int32_t filters, int32_t *sums)
{
    if (filters == 4) {
        tw_dot4_s4(pixel, first_in, zero, weights, filter, first, count, sums);
    } else {
        tw_dot1_s4(pixel, first_in, zero, weights, first, count, sums);
    }
}

#endif
