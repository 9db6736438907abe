/* tw_dot_w4.c - dot products of int8 inputs and int4 weights, portable C: two weights of a byte at a time. */
#include "tw_dot_w4.h"

void tw_dot4_w4(const int8_t *x, int32_t zero, const int8_t *weights, int32_t filter, int32_t first, int32_t count,
                int32_t *sums)
{
    int32_t sum0 = sums[0], sum1 = sums[1], sum2 = sums[2], sum3 = sums[3];
    const int8_t *w0 = weights + (first >> 1), *w1 = w0 + filter, *w2 = w1 + filter, *w3 = w2 + filter;
    if ((first & 1) && count > 0) {
        const int32_t value = *x++ - zero;
        sum0 += value * tw_high(*w0++);
        sum1 += value * tw_high(*w1++);
        sum2 += value * tw_high(*w2++);
        sum3 += value * tw_high(*w3++);
        --count;
    }
    for (; count > 1; count -= 2) {
        const int32_t value = x[0] - zero, next = x[1] - zero;
        const int8_t pair0 = *w0++, pair1 = *w1++, pair2 = *w2++, pair3 = *w3++;
        sum0 += value * tw_low(pair0) + next * tw_high(pair0);
        sum1 += value * tw_low(pair1) + next * tw_high(pair1);
        sum2 += value * tw_low(pair2) + next * tw_high(pair2);
        sum3 += value * tw_low(pair3) + next * tw_high(pair3);
        x += 2;
    }
    if (count > 0) {
        const int32_t value = *x - zero;
        sum0 += value * tw_low(*w0);
        sum1 += value * tw_low(*w1);
        sum2 += value * tw_low(*w2);
        sum3 += value * tw_low(*w3);
    }
    sums[0] = sum0;
    sums[1] = sum1;
    sums[2] = sum2;
    sums[3] = sum3;
}

void tw_dot1_w4(const int8_t *x, int32_t zero, const int8_t *weights, int32_t first, int32_t count, int32_t *sum)
{
    for (int32_t i = 0; i < count; ++i) {
        *sum += (x[i] - zero) * tw_int4(weights, first + i);
    }
}
