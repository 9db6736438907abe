/* tw_s16.h - what the kernels on int16 data share. They take whole maps only. */
#ifndef TW_S16_H
#define TW_S16_H

#include "tw.h"

/* x * multiplier * 2^(shift - 15), rounded half up (TFLite's MultiplyByQuantizedMultiplier of 64-bit sums, which has a
 * multiplier of 16 bits); |x| < 2^47, -31 <= shift <= 14. */
static inline int32_t tw_requantize_wide(int64_t x, int32_t multiplier, int32_t shift)
{
    const int32_t right = 15 - shift;
    return (int32_t)((x * multiplier + ((int64_t)1 << (right - 1))) >> right);
}

#endif
