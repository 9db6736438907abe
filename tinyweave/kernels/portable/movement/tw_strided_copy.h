/* tw_strided_copy.h - elements in another order: transpose, strided_slice and the like. */
#ifndef TW_STRIDED_COPY_H
#define TW_STRIDED_COPY_H

#include "tw.h"

/* out[i][j][k][l] = the run at in + start + i * stride[0] + j * stride[1] + k * stride[2] + l * stride[3]. */
typedef struct {
    int32_t size[4];    /* of the output, in runs; absent axes are 1 */
    int32_t start;      /* bytes */
    int32_t stride[4];  /* bytes, may be negative or 0 */
    int32_t run;        /* bytes that lie together in both, at least one element */
} tw_strides;

/* Each output may read all of the input: no ranges. Needs no scratch. */
void tw_strided_copy(const tw_strides *p, const void *in, void *out);

#endif
