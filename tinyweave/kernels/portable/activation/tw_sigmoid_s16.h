/* tw_sigmoid_s16.h - logistic and tanh of int16 from a table of logistic with linear interpolation. A _part form computes a
 * range between views.
 */
#ifndef TW_SIGMOID_S16_H
#define TW_SIGMOID_S16_H

#include "tw.h"

typedef struct {
    tw_shape shape;             /* of input and output */
    int32_t multiplier, shift;  /* from the input to multiples of 1 / (3 * 2^12): times multiplier / 2^shift, 0 <= shift <= 31 */
    const uint16_t *table;      /* [256]: logistic(i / 24) in units of 2^-16 */
} tw_sigmoid_s16;

static inline int32_t tw_sigmoid_argument(const tw_sigmoid_s16 *p, int32_t x)
{
    return (x * p->multiplier + (int32_t)((1u << p->shift) >> 1)) >> p->shift;
}

/* The table at `argument` / 2^bits, times 2^bits; `most` from entry 255 on. */
static inline int32_t tw_sigmoid_between(const tw_sigmoid_s16 *p, int32_t argument, int32_t bits, int32_t most)
{
    const int32_t magnitude = argument < 0 ? -argument : argument, index = magnitude >> bits;
    if (index > 254) {
        return most << bits;
    }
    return (p->table[index] << bits) + (magnitude & ((1 << bits) - 1)) * (p->table[index + 1] - p->table[index]);
}

/* int16 logistic; the output's scale is 2^-15. No scratch; out may alias in. */
TW_DECLARE_FORMS(tw_logistic_s16, tw_sigmoid_s16);

/* int16 tanh; the output's scale is 2^-15. No scratch; out may alias in. */
TW_DECLARE_FORMS(tw_tanh_s16, tw_sigmoid_s16);

#endif
