/* tw_reduction.h - what makes one element of many. A kernel without a range may read all of the input for each output. */
#ifndef TW_REDUCTION_H
#define TW_REDUCTION_H

#include "tw.h"

/* Where along an axis the largest or smallest element lies: the first of equal ones. The input is [outer][depth][inner], the
 * output [outer][inner]. */
typedef struct {
    int32_t outer, depth, inner;
    int32_t flip; /* 0: the largest, -1: the smallest, whose complement is the largest */
} tw_arg_max;

/* The index of the largest of `depth` int8 elements, or of their complements, `step` apart. */
static inline int32_t tw_arg_max_of(const int8_t *x, int32_t depth, int32_t step, int32_t flip)
{
    int32_t best = 0, largest = *x ^ flip;
    for (int32_t i = 1; i < depth; ++i) {
        x += step;
        if ((*x ^ flip) > largest) {
            largest = *x ^ flip;
            best = i;
        }
    }
    return best;
}

/* Defines a kernel with outputs of a type. */
#define TW_ARG_MAX_FORM(kernel, type)                                         \
    void kernel(const tw_arg_max *p, const void *in, void *out)               \
    {                                                                         \
        const int8_t *from = (const int8_t *)in;                              \
        type *to = (type *)out;                                               \
        for (int32_t i = 0; i < p->outer; ++i, from += p->depth * p->inner) { \
            for (int32_t k = 0; k < p->inner; ++k) {                          \
                *to++ = tw_arg_max_of(from + k, p->depth, p->inner, p->flip); \
            }                                                                 \
        }                                                                     \
    }

/* Where along an axis the largest or smallest int8 element lies, as int32. Needs no scratch. */
void tw_arg_max_s8_s32(const tw_arg_max *p, const void *in, void *out);

/* Where along an axis the largest or smallest int8 element lies, as int64. Needs no scratch. */
void tw_arg_max_s8_s64(const tw_arg_max *p, const void *in, void *out);

/* The k largest elements of each row of `depth` elements, in falling order; of equal ones, the first comes first. */
typedef struct {
    int32_t rows, depth, k;
} tw_topk_v2;

/* The k largest int8 elements of each row, and their places in the row as int32. Needs no scratch. */
void tw_topk_v2_s8(const tw_topk_v2 *p, const void *in, void *values, void *indices);

/* int8 mean over any axes. The input is [kept[0]][reduced[0]][kept[1]][reduced[1]][kept[2]], the output
 * [kept[0]][kept[1]][kept[2]]; absent axes are 1. A spatial mean is kept = {n, c, 1}, reduced = {h * w, 1}. */
typedef struct {
    int32_t kept[3], reduced[2];
    int32_t in_zero, out_zero;  /* zero points */
    int32_t multiplier, shift;  /* of a sum less its zero points, 1 / count included; Q31, a positive shift goes left */
} tw_mean;

/* In portable C, with the Arm DSP extension, and with the MVE extension. Need no scratch. A _part form computes a mean over the
 * columns of each row, kept = {h, c, 1}, reduced = {w, 1}; a _rows form one over the rows, kept = {1, w * c, 1}, reduced =
 * {h, 1}, or a spatial mean. */
TW_DECLARE_ROW_FORMS(tw_mean_s8, tw_mean);
TW_DECLARE_ROW_FORMS(tw_mean_s8_dsp, tw_mean);
TW_DECLARE_ROW_FORMS(tw_mean_s8_mve, tw_mean);

/* The mean of int16 elements, whose zero points are 0. */
void tw_mean_s16(const tw_mean *p, const void *in, void *out);

/* int8 maximum or minimum over any axes, which are those of a tw_mean. */
typedef struct {
    int32_t kept[3], reduced[2];
    int32_t larger;  /* 1: the maximum, 0: the minimum */
} tw_reduce_extremum;

/* Needs no scratch. */
void tw_reduce_extremum_s8(const tw_reduce_extremum *p, const void *in, void *out);

/* int8 product over any axes, which are those of a tw_mean. Each product of two numbers is rescaled, and the last one again. */
typedef struct {
    int32_t kept[3], reduced[2];
    int32_t in_zero, out_zero;  /* zero points */
    int32_t multiplier, shift;  /* Q15, a positive shift goes left, at most 7 */
} tw_reduce_prod;

/* Needs no scratch. */
void tw_reduce_prod_s8(const tw_reduce_prod *p, const void *in, void *out);

#endif
