/* tw_arg_max.h - where along an axis the largest element lies: the first of equal ones. */
#ifndef TW_ARG_MAX_H
#define TW_ARG_MAX_H

#include "tw.h"

/* The input is [outer][depth][inner], the output [outer][inner]. */
typedef struct { int32_t outer, depth, inner; } tw_arg_max;

/* The index of the largest of `depth` int8 elements, `step` apart. */
static inline int32_t tw_arg_max_of(const int8_t *x, int32_t depth, int32_t step)
{
    int32_t best = 0, largest = *x;
    for (int32_t i = 1; i < depth; ++i) {
        x += step;
        if (*x > largest) {
            largest = *x;
            best = i;
        }
    }
    return best;
}

/* Where along an axis the largest int8 element lies, as int32. Each output reads a whole axis of the input: no ranges. Needs
 * no scratch. */
void tw_arg_max_s8_s32(const tw_arg_max *p, const void *in, void *out);

/* Where along an axis the largest int8 element lies, as int64. Each output reads a whole axis of the input: no ranges. Needs
 * no scratch. */
void tw_arg_max_s8_s64(const tw_arg_max *p, const void *in, void *out);

#endif
