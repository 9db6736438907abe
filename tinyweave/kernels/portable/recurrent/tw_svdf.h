/* tw_svdf.h - the loops of int8 SVDF kernels. */
#ifndef TW_SVDF_H
#define TW_SVDF_H

#include <string.h>

#include "tw_recurrent.h"

/* tw_dot1. */
typedef void tw_svdf_dot(const int8_t *x, int32_t zero, const int8_t *weights, int32_t count, int32_t *sum);

/* The sum over time of one filter; the state of 2-byte elements. */
static inline int32_t tw_svdf_weigh16(const int16_t *state, const int16_t *weights, int32_t steps)
{
    uint32_t sum = 0; /* modulo 2^32 */
    for (int32_t i = 0; i < steps; ++i) {
        sum += (uint32_t)(state[i] * weights[i]);
    }
    return (int32_t)sum;
}

/* One filter with a state of 2-byte elements: forgets the oldest product, keeps the newest, and returns the sum over time. */
static inline int32_t tw_svdf_keep16(int32_t product, int16_t *state, const int16_t *time_weights, int32_t steps)
{
    memmove(state, state + 1, (size_t)(steps - 1) * sizeof *state);
    state[steps - 1] = (int16_t)tw_clamp(product, -32768, 32767);
    return tw_svdf_weigh16(state, time_weights, steps);
}

/* One filter: forgets the oldest product, keeps the newest, and returns the sum over time. */
static inline int32_t tw_svdf_filter(const tw_svdf *p, int32_t index, const int8_t *in, uint8_t *state, tw_svdf_dot *dot)
{
    const uint8_t *time_weights = (const uint8_t *)p->time_weights + index * p->steps * p->state_bytes;
    int32_t product = 0, sum = 0;
    dot(in, p->in_zero, p->weights + index * p->depth, p->depth, &product);
    product = tw_requantize(product, p->state_multiplier, p->state_shift);
    if (p->state_bytes == 2) {
        return tw_svdf_keep16(product, (int16_t *)(void *)state, (const int16_t *)(const void *)time_weights, p->steps);
    }
    memmove(state, state + 1, (size_t)(p->steps - 1));
    /* the zero point is added after the clamp: the state wraps around, as TFLite Micro's does */
    state[p->steps - 1] = (uint8_t)(tw_clamp(product, -128, 127) + p->state_zero);
    dot((const int8_t *)state, p->state_zero, (const int8_t *)time_weights, p->steps, &sum);
    return sum;
}

TW_INLINE void tw_svdf_over(const tw_svdf *p, const void *in, void *state, void *out, tw_svdf_dot *dot)
{
    const int8_t *from = (const int8_t *)in;
    uint8_t *memory = (uint8_t *)state;
    int8_t *to = (int8_t *)out;
    for (int32_t b = 0; b < p->batch; ++b) {
        for (int32_t unit = 0; unit < p->units; ++unit) {
            uint32_t sum = p->bias ? (uint32_t)p->bias[unit] : 0; /* modulo 2^32 */
            for (int32_t i = 0; i < p->rank; ++i) {
                sum += (uint32_t)tw_svdf_filter(p, unit * p->rank + i, from, memory, dot);
                memory += p->steps * p->state_bytes;
            }
            *to++ = (int8_t)tw_clamp(tw_requantize((int32_t)sum, p->multiplier, p->shift) + p->out_zero, -128, 127);
        }
        from += p->depth;
    }
}

#endif
