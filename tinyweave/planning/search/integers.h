/* 64-bit integer arithmetic of the planner's C. */
#ifndef TW_PLANNING_INTEGERS_H
#define TW_PLANNING_INTEGERS_H

#include <stdint.h>

typedef int64_t i64;

#define NEVER ((i64)1 << 60) /* a number of bytes, cycles or a step that is never reached: NEVER of problem.py */

static inline i64 minimum(i64 a, i64 b) { return a < b ? a : b; }
static inline i64 maximum(i64 a, i64 b) { return a > b ? a : b; }

/* a / b rounded towards minus infinity, as `//` of Python; b > 0. */
static inline i64 floor_divide(i64 a, i64 b) { return (a - (a % b + b) % b) / b; }

static inline i64 greatest_common_divisor(i64 a, i64 b)
{
    while (b) {
        const i64 rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

#endif
