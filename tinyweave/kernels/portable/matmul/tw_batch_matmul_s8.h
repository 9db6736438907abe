/* tw_batch_matmul_s8.h - products of int8 matrices, of which none need be constant. */
#ifndef TW_BATCH_MATMUL_S8_H
#define TW_BATCH_MATMUL_S8_H

#include "tw.h"

/* out[batch][i][j] = sum over k < depth of a[i * a_row + k * a_step] * b[j * b_col + k * b_step], rescaled. */
typedef struct {
    int32_t rows, cols, depth;
    int32_t batch[3];               /* extents; absent axes are 1 */
    int32_t a_batch[3], b_batch[3]; /* bytes from a matrix to the next along each, 0 where it repeats */
    int32_t a_row, a_step;          /* bytes */
    int32_t b_col, b_step;
    int32_t a_zero, b_zero, out_zero;
    int32_t multiplier, shift;
    int64_t once; /* in place of multiplier, if not 0: sums are rounded once, as in tw_fully_connected_s8 */
} tw_batch_matmul;

/* Each output may read all of the inputs. Needs no scratch. The _part form computes some rows of an output [1, rows, 1, cols]
 * between views: row i is the product of row i of a, [1, rows, 1, depth], with a matrix b that all rows share, or with row i
 * of b. */
TW_DECLARE_BINARY_FORMS(tw_batch_matmul_s8, tw_batch_matmul);

/* Products of int16 matrices, whose zero points are 0: multiplier is Q15, shift at most 7, sums have 64 bits and are rounded once. */
void tw_batch_matmul_s16(const tw_batch_matmul *p, const void *a, const void *b, void *out);

/* The same as tw_batch_matmul_s8 with the Arm DSP extension; a_step is 1, and b_step or b_col is 1. */
TW_DECLARE_BINARY_FORMS(tw_batch_matmul_s8_dsp, tw_batch_matmul);

/* The output of a sum of products. */
static inline int8_t tw_matmul_output(const tw_batch_matmul *p, int32_t sum)
{
    const int32_t scaled =
        p->once ? tw_requantize_once(sum, p->once, p->shift) : tw_requantize(sum, p->multiplier, p->shift);
    return (int8_t)(tw_clamp(scaled, -128 - p->out_zero, 127 - p->out_zero) + p->out_zero);
}

/* Computes one product of matrices; returns the place behind it. */
typedef int8_t *tw_multiply(const tw_batch_matmul *p, const int8_t *a, const int8_t *b, int8_t *to);

/* Multiplies each matrix of a with its matrix of b. */
TW_INLINE void tw_matmul_each(const tw_batch_matmul *p, const int8_t *a, const int8_t *b, int8_t *to, tw_multiply *multiply)
{
    for (int32_t i = 0; i < p->batch[0]; ++i) {
        for (int32_t j = 0; j < p->batch[1]; ++j) {
            for (int32_t k = 0; k < p->batch[2]; ++k) {
                const int32_t at_a = i * p->a_batch[0] + j * p->a_batch[1] + k * p->a_batch[2];
                const int32_t at_b = i * p->b_batch[0] + j * p->b_batch[1] + k * p->b_batch[2];
                to = multiply(p, a + at_a, b + at_b, to);
            }
        }
    }
}

/* The rows of a range that has the only column. */
TW_INLINE void tw_matmul_rows(const tw_batch_matmul *p, const tw_view *a, const tw_view *b, const tw_view *out, tw_range range,
                              tw_multiply *multiply)
{
    for (int32_t y = range.row_begin; range.col_begin < range.col_end && y < range.row_end; ++y) {
        const int32_t matrix = p->b_batch[2] ? y : 0; /* the row of b */
        multiply(p, (const int8_t *)tw_pixel(a, y, 0, 1), (const int8_t *)tw_pixel(b, matrix, 0, 1),
                 (int8_t *)tw_pixel(out, y, 0, 1));
    }
}

/* Defines both forms of a kernel that computes products of matrices by a tw_multiply. */
#define TW_MATMUL_FORMS(kernel, multiply)                                                               \
    void kernel(const tw_batch_matmul *p, const void *a, const void *b, void *out)                      \
    {                                                                                                   \
        tw_matmul_each(p, (const int8_t *)a, (const int8_t *)b, (int8_t *)out, multiply);               \
    }                                                                                                   \
    void kernel##_part(const tw_batch_matmul *p, tw_view a, tw_view b, tw_view out, tw_range range)     \
    {                                                                                                   \
        tw_matmul_rows(p, &a, &b, &out, range, multiply);                                               \
    }

#endif
