/* tw_svdf_s8.h - int8 SVDF layer: products with the input are kept for some steps and weighted over time. */
#ifndef TW_SVDF_S8_H
#define TW_SVDF_S8_H

#include "tw.h"

typedef struct {
    int32_t batch, depth, units, rank;        /* units * rank filters */
    int32_t steps;                            /* how many products of a filter are kept */
    int32_t state_bytes;                      /* of an element of the state and of time_weights, 1 or 2 */
    int32_t in_zero, state_zero, out_zero;    /* zero points */
    int32_t state_multiplier, state_shift;    /* from products to the state; Q31, a positive shift goes left */
    int32_t multiplier, shift;                /* from sums over time to the output */
    const int8_t *weights;                    /* [units][rank][depth], zero point 0 */
    const void *time_weights;                 /* [units][rank][steps], zero point 0 */
    const int32_t *bias;                      /* [units], or a null pointer */
} tw_svdf;

/* state: [batch][units][rank][steps], the oldest first; it is read and replaced. Needs no scratch. */
void tw_svdf_s8(const tw_svdf *p, const void *in, void *state, void *out);

#endif
