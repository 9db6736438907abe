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
} tw_batch_matmul;

/* Each output may read all of the inputs: no ranges. Needs no scratch. */
void tw_batch_matmul_s8(const tw_batch_matmul *p, const void *a, const void *b, void *out);

#endif
