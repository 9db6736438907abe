/* tw_movement.h - kernels that only move elements. A _part form computes a range of tw_fold(out) between views; kernels without
 * one may read all of their input for each output. */
#ifndef TW_MOVEMENT_H
#define TW_MOVEMENT_H

#include "tw.h"

/* The same bytes elsewhere: a reshape whose output has a place of its own. Copies `bytes` bytes; in and
 * out may overlap in any way. Needs no scratch. */
void tw_move(const void *in, void *out, int32_t bytes);

/* One input of a concatenation, put into its place in the output. For elements of more than one byte count bytes in c. */
typedef struct {
    tw_extents in, out;
    tw_extents before;  /* where the input begins in the output */
} tw_concatenation;

/* Copies the input in runs of in.c bytes, out.c apart in the output. The axes around these two are 1. Needs no scratch. The _part
 * form writes the part of the input that is in the range of the output. All axes may differ from 1. */
TW_DECLARE_FORMS(tw_concatenation_s8, tw_concatenation);

/* A tensor in a larger one filled with a value, up to four axes. For elements of more than one byte count bytes in c: c of
 * in, out and before times the element size, and value 0. */
typedef struct {
    tw_extents in, out;
    tw_extents before;  /* where the input begins in the output */
    int32_t value;      /* what the rest holds, -128 .. 127 */
} tw_pad;

/* Needs no scratch. */
TW_DECLARE_FORMS(tw_pad_s8, tw_pad);

/* Elements in another order: transpose, strided_slice and the like.
 * The run at in + start + i * stride[0] + j * stride[1] + k * stride[2] + l * stride[3] becomes that at block (i, j) of the output
 * + k * out_stride[0] + l * out_stride[1]. Blocks follow each other. The longer of the two axes of a block is l if possible. */
typedef struct {
    int32_t size[4];       /* runs along each axis; absent axes are 1 */
    int32_t start;         /* bytes */
    int32_t stride[4];     /* bytes, may be negative or 0 */
    int32_t out_stride[2]; /* bytes */
    int32_t run;           /* bytes that lie together in both, at least one element */
} tw_strides;

/* Needs no scratch. */
void tw_strided_copy(const tw_strides *p, const void *in, void *out);

/* Elements from places that tables list: gather, resize_nearest_neighbor, mirror_pad and the like.
 * out[i][j][k] = the run at in + i * step + row[j] + col[k], or a run of `value` where row[j] or col[k] is negative. */
typedef struct {
    int32_t count, step;      /* maps, and bytes from one to the next, may be negative or 0 */
    int32_t rows, cols;
    const int32_t *row, *col; /* bytes */
    int32_t run;              /* bytes, at least one element */
    int32_t value;            /* of a byte */
} tw_tables;

/* Needs no scratch. */
void tw_table_copy(const tw_tables *p, const void *in, void *out);

/* Slices of a tensor, each named by a vector of indices.
 * Slice i is the run at in + sum over k < depth of indices[i * depth + k] * step[k]. */
typedef struct {
    int32_t count;      /* slices */
    int32_t depth;      /* indices of each, at most 4 */
    int32_t extent[4];  /* an index outside of [0, extent) counts as the nearest inside */
    int32_t step[4];    /* bytes */
    int32_t run;        /* bytes of a slice */
} tw_slices;

/* Needs no scratch. */
void tw_gather_nd(const tw_slices *p, const void *in, const void *indices, void *out);

#endif
