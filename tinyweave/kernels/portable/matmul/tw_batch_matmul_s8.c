/* tw_batch_matmul_s8.c - products of int8 matrices, portable C: the specification of every faster variant. */
#include "tw_batch_matmul_s8.h"

static int8_t *multiply(const tw_batch_matmul *p, const int8_t *a, const int8_t *b, int8_t *to)
{
    for (int32_t i = 0; i < p->rows; ++i) {
        for (int32_t j = 0; j < p->cols; ++j) {
            *to++ = tw_matmul_output(p, tw_matmul_product(p, a + i * p->a_row, b + j * p->b_col));
        }
    }
    return to;
}

TW_MATMUL_FORMS(tw_batch_matmul_s8, multiply)
