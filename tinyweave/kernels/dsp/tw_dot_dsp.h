/* tw_dot_dsp.h - tw_dot.h with the Arm DSP extension, for layers with a state. */
#ifndef TW_DOT_DSP_H
#define TW_DOT_DSP_H

#include "tw.h"

#define TW_DOT_MOST 256 /* products of at most 255 * 128, whose sum is below 2^23, so that 256 times the sum is an int32 */

/* tw_dot4 of `groups` times four filters, with sums [groups][4] modulo 2^32. The weights begin at a multiple of four bytes, in the
 * order of tw_dot_dsp.c. `count` is a multiple of 4, 4 .. TW_DOT_MOST. */
void tw_dot4_whole_dsp(const int8_t *x, int32_t zero, const int8_t *weights, int32_t count, int32_t groups, int32_t *sums);

/* tw_dot4_whole_dsp of one group, for any number of inputs. */
void tw_dot4_any_dsp(const int8_t *x, int32_t zero, const int8_t *weights, int32_t count, int32_t *sums);

/* The faster of these for any number of inputs. */
static inline void tw_dot4_dsp(const int8_t *x, int32_t zero, const int8_t *weights, int32_t count, int32_t groups, int32_t *sums)
{
    if (count > 0 && count % 4 == 0 && count <= TW_DOT_MOST) {
        tw_dot4_whole_dsp(x, zero, weights, count, groups, sums);
        return;
    }
    for (; groups > 0; --groups) {
        tw_dot4_any_dsp(x, zero, weights, count, sums);
        weights += 4 * count;
        sums += 4;
    }
}

/* tw_dot1 with a sum modulo 2^32. */
void tw_dot1_dsp(const int8_t *x, int32_t zero, const int8_t *weights, int32_t count, int32_t *sum);

/* A tw_products. */
static inline void tw_dot_s8_dsp(const int8_t *pixel, int32_t first_in, int32_t zero, const int8_t *weights, int32_t filter,
                                 int32_t first, int32_t count, int32_t filters, int32_t *sums)
{
    (void)filter; /* is `count` */
    if (filters == 4) {
        tw_dot4_dsp(pixel + first_in, zero, weights + first, count, 1, sums);
    } else {
        tw_dot1_dsp(pixel + first_in, zero, weights + first, count, sums);
    }
}

#endif
