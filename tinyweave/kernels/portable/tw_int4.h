/* tw_int4.h - int4 values, two to a byte, the first in its low half. A pixel or a filter begins with a byte of its own; half a
 * byte that is left over at the end of a pixel is 0.
 */
#ifndef TW_INT4_H
#define TW_INT4_H

#include "tw.h"

/* The values of a byte. */
static inline int32_t tw_low(int8_t pair) { return tw_shift_left(pair, 28) >> 28; }
static inline int32_t tw_high(int8_t pair) { return pair >> 4; }

/* The byte of two values. */
static inline int8_t tw_int4_pair(int32_t low, int32_t high) { return (int8_t)((low & 15) | tw_shift_left(high, 4)); }

/* Bytes of `count` values that lie together. */
static inline int32_t tw_int4_bytes(int32_t count) { return (count + 1) >> 1; }

/* Value `index` of those from a byte on. */
static inline int32_t tw_int4(const int8_t *pairs, int32_t index)
{
    return index & 1 ? tw_high(pairs[index >> 1]) : tw_low(pairs[index >> 1]);
}

/* The same of values of 8 or 4 bits. */
static inline int32_t tw_bytes(int32_t count, int bits) { return bits == 4 ? tw_int4_bytes(count) : count; }
static inline int32_t tw_value(const int8_t *from, int32_t index, int bits)
{
    return bits == 4 ? tw_int4(from, index) : from[index];
}

/* Writes values `first` .. `first` + count - 1 of a pixel, after those before them: the half after the last one becomes 0. */
static inline void tw_put_int4(int8_t *pixel, int32_t first, const int8_t *values, int32_t count)
{
    for (int32_t i = 0; i < count; ++i) {
        int8_t *const pair = pixel + ((first + i) >> 1);
        *pair = (first + i) & 1 ? tw_int4_pair(*pair, values[i]) : (int8_t)(values[i] & 15);
    }
}

/* The view of a whole feature map at `data`. */
static inline tw_view tw_whole_s4(const void *data, tw_shape shape)
{
    tw_view view = {tw_viewed(data), shape.w * tw_int4_bytes(shape.c), shape.h, 0, 0};
    return view;
}

#endif
