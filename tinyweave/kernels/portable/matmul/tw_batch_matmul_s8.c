/* tw_batch_matmul_s8.c - products of int8 matrices, portable C: the specification of every faster variant. */
#include "tw_batch_matmul_s8.h"

static int32_t product(const tw_batch_matmul *p, const int8_t *a, const int8_t *b)
{
    int32_t sum = 0;
    for (int32_t k = 0; k < p->depth; ++k) {
        sum += (*a - p->a_zero) * (*b - p->b_zero);
        a += p->a_step;
        b += p->b_step;
    }
    return sum;
}

/* One matrix times one matrix; gives the place behind the output. */
static int8_t *multiply(const tw_batch_matmul *p, const int8_t *a, const int8_t *b, int8_t *to)
{
    const int32_t low = -128 - p->out_zero, high = 127 - p->out_zero;
    for (int32_t i = 0; i < p->rows; ++i) {
        for (int32_t j = 0; j < p->cols; ++j) {
            const int32_t sum = product(p, a + i * p->a_row, b + j * p->b_col);
            *to++ = (int8_t)(tw_clamp(tw_requantize(sum, p->multiplier, p->shift), low, high) + p->out_zero);
        }
    }
    return to;
}

void tw_batch_matmul_s8(const tw_batch_matmul *p, const void *a, const void *b, void *out)
{
    int8_t *to = (int8_t *)out;
    for (int32_t i = 0; i < p->batch[0]; ++i) {
        for (int32_t j = 0; j < p->batch[1]; ++j) {
            for (int32_t k = 0; k < p->batch[2]; ++k) {
                const int32_t at_a = i * p->a_batch[0] + j * p->a_batch[1] + k * p->a_batch[2];
                const int32_t at_b = i * p->b_batch[0] + j * p->b_batch[1] + k * p->b_batch[2];
                to = multiply(p, (const int8_t *)a + at_a, (const int8_t *)b + at_b, to);
            }
        }
    }
}
