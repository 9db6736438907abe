/* tw_dot.h - sums of products of int8 inputs and weights: the inner loops of conv_2d and fully_connected.
 *
 * Functions of their own, so that the compiler has all registers for them.
 */
#ifndef TW_DOT_H
#define TW_DOT_H

#include "tw.h"

/* sums[k] += sum over i < count of (x[i] - zero) * weights[k * filter + i], for four filters. */
void tw_dot4(const int8_t *x, int32_t zero, const int8_t *weights, int32_t filter, int32_t count, int32_t *sums);

/* The same for one filter. */
void tw_dot1(const int8_t *x, int32_t zero, const int8_t *weights, int32_t count, int32_t *sum);

#endif
