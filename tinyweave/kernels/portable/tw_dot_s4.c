/* tw_dot_s4.c - dot products of int4 inputs and int4 weights, portable C: two of both at a time. */
#include "tw_dot_s4.h"

/* One product for each of four filters. */
static inline void add4(int32_t value, const int8_t *weights, int32_t filter, int32_t index, int32_t *sums)
{
    for (int32_t k = 0; k < 4; ++k) {
        sums[k] += value * tw_int4(weights + k * filter, index);
    }
}

void tw_dot4_s4(const int8_t *pixel, int32_t first_in, int32_t zero, const int8_t *weights, int32_t filter, int32_t first,
                int32_t count, int32_t *sums)
{
    int32_t i = 0;
    if ((first_in & 1) == 0) {
        int32_t sum0 = sums[0], sum1 = sums[1], sum2 = sums[2], sum3 = sums[3];
        const int8_t *x = pixel + (first_in >> 1);
        const int8_t *w0 = weights + (first >> 1), *w1 = w0 + filter, *w2 = w1 + filter, *w3 = w2 + filter;
        for (; i + 1 < count; i += 2) {
            const int8_t inputs = *x++, pair0 = *w0++, pair1 = *w1++, pair2 = *w2++, pair3 = *w3++;
            const int32_t value = tw_low(inputs) - zero, next = tw_high(inputs) - zero;
            sum0 += value * tw_low(pair0) + next * tw_high(pair0);
            sum1 += value * tw_low(pair1) + next * tw_high(pair1);
            sum2 += value * tw_low(pair2) + next * tw_high(pair2);
            sum3 += value * tw_low(pair3) + next * tw_high(pair3);
        }
        sums[0] = sum0;
        sums[1] = sum1;
        sums[2] = sum2;
        sums[3] = sum3;
    }
    for (; i < count; ++i) {
        add4(tw_int4(pixel, first_in + i) - zero, weights, filter, first + i, sums);
    }
}

void tw_dot1_s4(const int8_t *pixel, int32_t first_in, int32_t zero, const int8_t *weights, int32_t first, int32_t count,
                int32_t *sum)
{
    for (int32_t i = 0; i < count; ++i) {
        *sum += (tw_int4(pixel, first_in + i) - zero) * tw_int4(weights, first + i);
    }
}
