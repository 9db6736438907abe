/* tw_dot.h - dot products of int8 inputs and weights: the inner loops of conv_2d and fully_connected. Not inlined, so that they
 * have all registers.
 */
#ifndef TW_DOT_H
#define TW_DOT_H

#include "tw.h"

/* sums[k] += sum over i < count of (x[i] - zero) * weights[k * filter + i], for four filters. */
void tw_dot4(const int8_t *x, int32_t zero, const int8_t *weights, int32_t filter, int32_t count, int32_t *sums);

/* The same for two or three filters. */
void tw_dot_few(const int8_t *x, int32_t zero, const int8_t *weights, int32_t filter, int32_t count, int32_t filters, int32_t *sums);

/* The same for one filter. */
void tw_dot1(const int8_t *x, int32_t zero, const int8_t *weights, int32_t count, int32_t *sum);

/* A tw_products. */
static inline void tw_dot_s8(const int8_t *pixel, int32_t first_in, int32_t zero, const int8_t *weights, int32_t filter,
                             int32_t first, int32_t count, int32_t filters, int32_t *sums)
{
    if (filters == 4) {
        tw_dot4(pixel + first_in, zero, weights + first, filter, count, sums);
    } else if (filters > 1) {
        tw_dot_few(pixel + first_in, zero, weights + first, filter, count, filters, sums);
    } else {
        tw_dot1(pixel + first_in, zero, weights + first, count, sums);
    }
}

#endif
