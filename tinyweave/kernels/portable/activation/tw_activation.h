/* tw_activation.h - functions of one element. A _part form computes a range between views. */
#ifndef TW_ACTIVATION_H
#define TW_ACTIVATION_H

#include "tw.h"

/* Any function of one int8 element, by table. */
typedef struct {
    tw_shape shape;       /* of input and output */
    const int8_t *table;  /* [256]: the results for -128 .. 127, in this order */
} tw_lookup;

/* The range of the output. Loads come before stores, since loads in a row take one cycle each. */
TW_INLINE void tw_lookup_over(const tw_lookup *p, tw_view in, tw_view out, tw_range range)
{
    const int8_t *const table = p->table + 128;
    const int32_t count = (range.col_end - range.col_begin) * p->shape.c;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *from = (const int8_t *)tw_pixel(&in, y, range.col_begin, p->shape.c);
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, p->shape.c);
        const int8_t *const end = to + count, *const fours = to + (count & ~3);
        while (to != fours) {
            const int32_t a = from[0], b = from[1], c = from[2], d = from[3];
            const int8_t of_a = table[a], of_b = table[b], of_c = table[c], of_d = table[d];
            to[0] = of_a;
            to[1] = of_b;
            to[2] = of_c;
            to[3] = of_d;
            from += 4;
            to += 4;
        }
        while (to != end) {
            *to++ = table[*from++];
        }
    }
}

/* No scratch; out may alias in. */
TW_DECLARE_FORMS(tw_lookup_s8, tw_lookup);

/* tw_lookup_s8 for an op with two operands, one of which is a constant with one element. */
TW_DECLARE_FORMS(tw_one_constant_s8, tw_lookup);

/* One-byte integers to one-byte integers of another scale. The table has the results for the bytes 128 .. 255, 0 .. 127. No
 * scratch; out may alias in. */
TW_DECLARE_FORMS(tw_requantize_table_dsp, tw_lookup);

/* int16 with one slope from the zero point on and another below it. */
typedef struct {
    tw_shape shape;                               /* of input and output */
    int32_t in_zero, out_zero;                    /* zero points */
    int32_t positive_multiplier, positive_shift;  /* Q31; a positive shift goes left */
    int32_t negative_multiplier, negative_shift;
} tw_leaky_relu;

/* No scratch; out may alias in. */
TW_DECLARE_FORMS(tw_leaky_relu_s16, tw_leaky_relu);

#endif
