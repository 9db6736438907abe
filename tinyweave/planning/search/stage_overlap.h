/* Bytes of a fused stage's output that may reuse the memory of tensors whose last use is in the stage.
 *
 * The same as `overlap_in_stage` of stage_overlap.py, for problems without graphs. Assumes that no op upsamples, that no tensor
 * is a view of another, and that each op of a stage but the first reads a tensor that the stage computes. */
#ifndef TW_PLANNING_STAGE_OVERLAP_H
#define TW_PLANNING_STAGE_OVERLAP_H

#include "stage_growth.h"

/* An unfused op or a tile of a stage, with its timing: `RowTiming` of plan.py. */
typedef struct {
    i64 begin, end;      /* its steps */
    i64 tile;            /* its number; -1: a single op */
    i64 rows;            /* of its output per iteration */
    i64 row_ticks;       /* from one row to the next */
    i64 first_tick;      /* of its first iteration */
    i64 needed_rows;     /* that it computes in all */
    i64 iterations;
} node;

/* The problem and work space, which a caller allocates once. */
typedef struct {
    const problem *problem;
    const i64 *is_in_place; /* per read of an op, whether it reads each byte before it writes the same one */
    i64 *node_of;           /* work space per tensor: the node of the stage that computes it, -1: none */
    node *nodes;            /* work space per op */
} overlap_space;

/* Bytes that the output of a stage may reuse, with the tiles of `tiling`. Takes O(nodes * reads * rows of the output) time. */
i64 tw_stage_overlap(const overlap_space *s, const stage_columns *stages, i64 tiling);

#endif
