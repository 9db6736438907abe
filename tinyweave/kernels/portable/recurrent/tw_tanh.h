/* tw_tanh.h - tanh and logistic of sums with 12 fractional bits, from a table of tanh with linear interpolation. Results are in
 * Q0.15; they differ from the exact ones by 4 units at most. */
#ifndef TW_TANH_H
#define TW_TANH_H

#include "tw.h"

/* tanh(i / 32) in Q0.15. */
extern const int16_t tw_tanh_table[257];

/* tanh(x / 2^12). Beyond 8 it is that of 8. */
static inline int32_t tw_tanh_q12(int32_t x)
{
    const int32_t magnitude = tw_clamp(x < 0 ? -x : x, 0, 32767), low = tw_tanh_table[magnitude >> 7];
    const int32_t rise = (tw_tanh_table[(magnitude >> 7) + 1] - low) * (magnitude & 127);
    const int32_t positive = low + ((rise + 64) >> 7);
    return x < 0 ? -positive : positive;
}

/* 1 / (1 + exp(-x / 2^12)) = (1 + tanh(x / 2^13)) / 2. */
static inline int32_t tw_logistic_q12(int32_t x) { return (32768 + tw_tanh_q12(x >> 1)) >> 1; }

#endif
