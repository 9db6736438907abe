/* tw_gather_nd.h - slices of a tensor, each named by a vector of indices. */
#ifndef TW_GATHER_ND_H
#define TW_GATHER_ND_H

#include "tw.h"

/* Slice i is the run at in + sum over k < depth of indices[i * depth + k] * step[k]. */
typedef struct {
    int32_t count;      /* slices */
    int32_t depth;      /* indices of each, at most 4 */
    int32_t extent[4];  /* an index outside of [0, extent) counts as the nearest inside */
    int32_t step[4];    /* bytes */
    int32_t run;        /* bytes of a slice */
} tw_slices;

/* Each output may read all of the input: no ranges. Needs no scratch. */
void tw_gather_nd(const tw_slices *p, const void *in, const void *indices, void *out);

#endif
