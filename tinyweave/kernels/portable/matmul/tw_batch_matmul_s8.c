/* tw_batch_matmul_s8.c - products of int8 matrices, portable C: the specification of every faster variant. */
#include "tw_batch_matmul_s8.h"

#include "tw_dot.h"

/* Adds to four sums the products of a row of a, less its zero point, with `count` columns of b; the last one repeats up to four. */
static void add_columns(const tw_batch_matmul *p, const int8_t *a, const int8_t *b, int32_t count, int32_t *sums)
{
    const int8_t *b1 = b + (count > 1 ? p->b_col : 0), *b2 = b1 + (count > 2 ? p->b_col : 0);
    const int8_t *b3 = b2 + (count > 3 ? p->b_col : 0);
    int32_t sum0 = sums[0], sum1 = sums[1], sum2 = sums[2], sum3 = sums[3];
    for (int32_t k = 0, at = 0; k < p->depth; ++k, at += p->b_step, a += p->a_step) {
        const int32_t value = *a - p->a_zero;
        sum0 += value * b[at];
        sum1 += value * b1[at];
        sum2 += value * b2[at];
        sum3 += value * b3[at];
    }
    sums[0] = sum0;
    sums[1] = sum1;
    sums[2] = sum2;
    sums[3] = sum3;
}

static int8_t *multiply(const tw_batch_matmul *p, const int8_t *a, const int8_t *b, int8_t *to)
{
    for (int32_t i = 0; i < p->rows; ++i, a += p->a_row) {
        int32_t shared = 0; /* what the zero point of b subtracts */
        for (int32_t k = 0; k < p->depth; ++k) {
            shared -= p->b_zero * (a[k * p->a_step] - p->a_zero);
        }
        for (int32_t j = 0; j < p->cols; j += 4) {
            const int32_t count = tw_min(p->cols - j, 4);
            int32_t sums[4] = {shared, shared, shared, shared};
            if (p->a_step == 1 && p->b_step == 1) {
                tw_dot_s8(a, 0, p->a_zero, b + j * p->b_col, p->b_col, 0, p->depth, count, sums);
            } else {
                add_columns(p, a, b + j * p->b_col, count, sums);
            }
            for (int32_t k = 0; k < count; ++k) {
                *to++ = tw_matmul_output(p, sums[k]);
            }
        }
    }
    return to;
}

TW_MATMUL_FORMS(tw_batch_matmul_s8, multiply)
