/* tw_dot.c - sums of products of int8 inputs and weights, portable C. */
#include "tw_dot.h"

void tw_dot4(const int8_t *x, int32_t zero, const int8_t *weights, int32_t filter, int32_t count, int32_t *sums)
{
    int32_t sum0 = sums[0], sum1 = sums[1], sum2 = sums[2], sum3 = sums[3];
    const int8_t *w0 = weights, *w1 = w0 + filter, *w2 = w1 + filter, *w3 = w2 + filter;
    for (int32_t i = 0; i < count; ++i) {
        const int32_t value = x[i] - zero;
        sum0 += value * w0[i];
        sum1 += value * w1[i];
        sum2 += value * w2[i];
        sum3 += value * w3[i];
    }
    sums[0] = sum0;
    sums[1] = sum1;
    sums[2] = sum2;
    sums[3] = sum3;
}

void tw_dot1(const int8_t *x, int32_t zero, const int8_t *weights, int32_t count, int32_t *sum)
{
    for (int32_t i = 0; i < count; ++i) {
        *sum += (x[i] - zero) * weights[i];
    }
}
