/* tw_int4.h - int4 weights, two to a byte, the first in its low half. */
#ifndef TW_INT4_H
#define TW_INT4_H

#include "tw.h"

/* The values of a byte. */
static inline int32_t tw_low(int8_t pair) { return tw_shift_left(pair, 28) >> 28; }
static inline int32_t tw_high(int8_t pair) { return pair >> 4; }

/* Bytes of `count` values that lie together. */
static inline int32_t tw_int4_bytes(int32_t count) { return (count + 1) >> 1; }

/* Value `index` of those from a byte on. */
static inline int32_t tw_int4(const int8_t *pairs, int32_t index)
{
    return index & 1 ? tw_high(pairs[index >> 1]) : tw_low(pairs[index >> 1]);
}

#endif
