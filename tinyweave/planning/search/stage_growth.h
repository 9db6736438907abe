/* The fused stages that a network can have, and the tiles that save most line-buffer bytes in each.
 *
 * A stage grows from a first op by one op at a time. stage_growth.py specifies the algorithm, problem.py the input.
 * Input: `problem`. Output: `stage_columns`. Both are tables stored as one array per column. Lists of several lengths (the reads
 * of an op, the tiles of a tiling) are stored one after the other; an `..._at` column holds where each list begins.
 *
 * Ops and tensors are numbered from 0. Step i runs op i. Ranges [begin, end) of steps exclude `end`. Sizes are in bytes.
 * Time: O(ops * longest_stage * (tensors + tilings * log tilings)). Memory: O(tensors + longest_stage * tilings) and the output. */
#ifndef TW_PLANNING_STAGE_GROWTH_H
#define TW_PLANNING_STAGE_GROWTH_H

#include "integers.h"

/* Row accesses of each op or tile, one after the other. Those of op (or tile) k are the entries [at[k], at[k + 1]). */
typedef struct {
    const i64 *at;
    const i64 *tensor;                             /* the tensor that is read */
    const i64 *extent, *stride, *pad, *up, *phase; /* its `Window` of ops/window.py, along the rows */
} row_reads;

/* `Problem` of problem.py, column by column. */
typedef struct {
    i64 op_count, tensor_count;
    i64 longest_stage;      /* ops */
    i64 most_tilings;       /* kept per stage with recomputation, and as many without */
    i64 most_ticks;         /* of a row */
    i64 arena_floor;        /* lower bound on the arena of every plan */
    i64 one_tile_per_stage; /* whether each fused stage is a single tile */

    /* per tensor */
    const i64 *tensor_bytes;
    const i64 *tensor_rows, *tensor_row_bytes;           /* 1 and 0 if it is not a feature map */
    const i64 *tensor_born, *tensor_dies;                /* alive in the steps [born, dies); dies 0: it owns no bytes */
    const i64 *tensor_is_persistent;                     /* whether it stays alive after the last step */
    const i64 *tensor_first_reader, *tensor_last_reader; /* steps; last_reader is NEVER for a network output, -1 without readers */
    const i64 *tensor_is_streamed_input, *tensor_is_streamed_output;

    /* per op */
    const i64 *op_output;            /* the tensor that it computes */
    const i64 *op_rows;              /* rows that it computes; for row-wise accumulation, rows of its input */
    const i64 *op_accumulator_bytes; /* for row-wise accumulation, else 0 */
    const i64 *op_unfused_bytes;     /* RAM of its step if it runs unfused; NEVER: it cannot */
    const i64 *op_is_by_rows;        /* whether it can be fused */
    row_reads op_reads;

    /* per tile; those that end with op k are the tiles [tile_at[k], tile_at[k + 1]) */
    const i64 *tile_at;
    const i64 *tile_first; /* its first op */
    const i64 *tile_rows;  /* rows of its output per iteration */
    const i64 *tile_bytes; /* of its buffer */
    const i64 *tile_recomputed_macs;
    row_reads tile_reads; /* tensors from outside the tile, per tile_rows rows */
} problem;

/* An array that grows. */
typedef struct {
    i64 *at;
    i64 count, room;
} vector;

/* `Stages` of stages.py, column by column. */
typedef struct {
    /* per stage; entries [fewer_at[s], fewer_at[s + 1]) of fewer_step and fewer_rows: the steps whose output is only read in part,
     * and the rows to compute */
    vector begin, end, bytes, most_overlap, fewer_at, fewer_step, fewer_rows;
    /* per tiling of a stage; entries [tiles_at[t], tiles_at[t + 1]) of tiles: its tiles */
    vector stage, saved, tile_bytes, recomputed_macs, tiles_at, tiles;
    i64 failed; /* whether memory ran out */
} stage_columns;

/* `Window` of ops/window.py. */
typedef struct {
    i64 extent, stride, pad, up, phase;
} window;

/* A tensor that a growing stage computes or streams in: `StageTensor` of stage_growth.py. */
typedef struct {
    i64 row_ticks;   /* ticks of its clock from one row to the next */
    i64 first_tick;  /* of its row 0, as early as possible */
    i64 start_tick;  /* of its row 0, as late as its readers allow; first_tick unless it is a source */
    i64 buffer_rows; /* rows of its line buffer */
    i64 is_source;   /* whether it waits for no other tensor of the stage */
    i64 clock;       /* tensors of different clocks are not joined by an op yet */
    i64 is_present;  /* whether it is in the stage */
    i64 is_unread;   /* whether the stage computes it and has not read it yet */
} stage_tensor;

/* An op of the stage that reads a source. reader: the op's output. */
typedef struct {
    i64 source, reader;
    window window;
} source_read;

/* Tiles of a stage: `Tiling` of stage_growth.py. */
typedef struct {
    i64 saved;           /* line-buffer bytes that its tiles save */
    i64 tile_bytes;      /* buffer of its largest tile */
    i64 recomputed_macs; /* of all its tiles */
    i64 output_buffer;   /* bytes saved less if the stage continues */
    i64 tile_count;
    i64 shorter; /* index of the kept tiling without its last tile; -1: none */
    i64 tile;    /* its last tile; -1: none */
} tiling_option;

/* The state of growing stages, and what it writes to. */
typedef struct growth {
    const problem *problem;
    stage_columns *out;
    /* Whether a stage of [begin, end) need not grow further; NULL: it always grows. */
    int (*stops)(struct growth *, i64 begin, i64 end);
    i64 emit_after; /* stages that end at this step or before are not emitted */

    stage_tensor *tensors;     /* per tensor of the problem */
    i64 *present, present_count; /* the tensors in the stage */
    i64 unread;                /* how many of these are unread */
    source_read *source_reads;
    i64 source_read_count;

    tiling_option *kept; /* tilings of the stage without ops, then with one op, with two ops and so on */
    i64 kept_count, kept_room;
    i64 *kept_at; /* those of the stage with n ops are kept [kept_at[n], kept_at[n + 1]) */
    tiling_option *options, *front; /* work space of extend_tilings */
    i64 option_room;

    i64 *needed;     /* per tensor in the stage, the rows that must be computed */
    i64 *is_reached; /* per step, whether a stage or an unfused op ends before it */
} growth;

/* Ticks that pass from row 0 of a tensor to row 0 of an op's output that reads it through a window. */
static inline i64 ticks_to_wait(window w, i64 row_ticks)
{
    return row_ticks * (w.extent - 1 - w.pad) + row_ticks / w.up * w.phase;
}

static inline window window_of(const row_reads *reads, i64 r)
{
    return (window){reads->extent[r], reads->stride[r], reads->pad[r], reads->up[r], reads->phase[r]};
}

/* Whether only the steps [begin, end) read a tensor. */
static inline int is_internal(const problem *p, i64 x, i64 begin, i64 end)
{
    return p->tensor_first_reader[x] >= begin && p->tensor_last_reader[x] < end;
}

/* Bytes that a tiling adds to its stage: its tile buffer less the line buffers it saves. */
static inline i64 net_bytes(const tiling_option *t) { return t->tile_bytes - t->saved; }

/* Allocate the work space of a growth; 0 if there is not enough memory. `tw_end_growth` frees it in both cases. */
int tw_begin_growth(growth *g, const problem *p, stage_columns *out);
void tw_end_growth(growth *g);

/* Append to the output all stages that begin with an op. Takes O(longest_stage * (tensor_count + tilings)) time. */
void tw_grow_stages_from(growth *g, i64 begin);

/* Fill `out` with all stages of a problem; 0 if there is not enough memory. `tw_free_stages` frees it in both cases. */
int tw_grow_stages(const problem *p, stage_columns *out);
void tw_free_stages(stage_columns *out);

#endif
