/* tw_dot_dsp.h - tw_dot.h with the Arm DSP extension, for layers with a state. */
#ifndef TW_DOT_DSP_H
#define TW_DOT_DSP_H

#include "tw.h"

/* tw_dot4 and tw_dot1 with sums modulo 2^32. The weights of tw_dot4_dsp begin at a multiple of four bytes, in the order of
 * tw_dot_dsp.c, and `filter` is `count`. */
void tw_dot4_dsp(const int8_t *x, int32_t zero, const int8_t *weights, int32_t filter, int32_t count, int32_t *sums);
void tw_dot1_dsp(const int8_t *x, int32_t zero, const int8_t *weights, int32_t count, int32_t *sum);

/* tw_dot4_dsp of `groups` times four filters; sums: [groups][4]. */
void tw_dots_dsp(const int8_t *x, int32_t zero, const int8_t *weights, int32_t count, int32_t groups, int32_t *sums);

/* A tw_products. */
static inline void tw_dot_s8_dsp(const int8_t *pixel, int32_t first_in, int32_t zero, const int8_t *weights, int32_t filter,
                                 int32_t first, int32_t count, int32_t filters, int32_t *sums)
{
    if (filters == 4) {
        tw_dot4_dsp(pixel + first_in, zero, weights + first, filter, count, sums);
    } else {
        tw_dot1_dsp(pixel + first_in, zero, weights + first, count, sums);
    }
}

#endif
