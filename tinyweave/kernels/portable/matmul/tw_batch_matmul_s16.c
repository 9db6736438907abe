/* tw_batch_matmul_s16.c - products of int16 matrices, portable C. */
#include "tw_batch_matmul_s8.h"

#include "tw_conv_s16.h"

static int8_t *multiply(const tw_batch_matmul *p, const int8_t *a, const int8_t *b, int8_t *to)
{
    int16_t *out = (int16_t *)(void *)to;
    for (int32_t i = 0; i < p->rows; ++i) {
        for (int32_t j = 0; j < p->cols; ++j) {
            const int8_t *x = a + i * p->a_row, *y = b + j * p->b_col;
            int64_t sum = 0;
            for (int32_t k = 0; k < p->depth; ++k) {
                sum += *(const int16_t *)(const void *)x * *(const int16_t *)(const void *)y;
                x += p->a_step;
                y += p->b_step;
            }
            *out++ = (int16_t)tw_clamp(tw_requantize_wide(sum, p->multiplier, p->shift), -32768, 32767);
        }
    }
    return (int8_t *)(void *)out;
}

void tw_batch_matmul_s16(const tw_batch_matmul *p, const void *a, const void *b, void *out)
{
    tw_matmul_each(p, (const int8_t *)a, (const int8_t *)b, (int8_t *)out, multiply);
}
