/* tw_dot.c - the portable sums of products, four rounds of each loop as one: a step of bench/ablation.py, not of tinyweave. */
#include "tw_dot.h"

#define ROUND_4                          \
    do {                                 \
        const int32_t value = *x - zero; \
        sum0 += value * *w0++;           \
        sum1 += value * *w1++;           \
        sum2 += value * *w2++;           \
        sum3 += value * *w3++;           \
        ++x;                             \
    } while (0)
#define ROUND_1 total += (*x++ - zero) * *weights++

void tw_dot4(const int8_t *x, int32_t zero, const int8_t *weights, int32_t filter, int32_t count, int32_t *sums)
{
    int32_t sum0 = sums[0], sum1 = sums[1], sum2 = sums[2], sum3 = sums[3];
    const int8_t *w0 = weights, *w1 = w0 + filter, *w2 = w1 + filter, *w3 = w2 + filter;
    for (; count >= 4; count -= 4) {
        ROUND_4;
        ROUND_4;
        ROUND_4;
        ROUND_4;
    }
    for (; count > 0; --count) {
        ROUND_4;
    }
    sums[0] = sum0;
    sums[1] = sum1;
    sums[2] = sum2;
    sums[3] = sum3;
}

void tw_dot1(const int8_t *x, int32_t zero, const int8_t *weights, int32_t count, int32_t *sum)
{
    int32_t total = *sum;
    for (; count >= 4; count -= 4) {
        ROUND_1;
        ROUND_1;
        ROUND_1;
        ROUND_1;
    }
    for (; count > 0; --count) {
        ROUND_1;
    }
    *sum = total;
}
