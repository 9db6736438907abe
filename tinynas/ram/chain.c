/* Peak RAM of the best plan for a chain of ops on square maps with residual connections, computed without a graph.
 *
 * Builds the same `problem` that of_graph.py of planning/search builds from the network's graph, and searches it with
 * least_bytes.c. tests/tinynas/test_arena.py compares the results on random networks. Step k reads tensor k and writes tensor k + 1.
 *
 * All columns of the problem are slices of one block of memory. Building it takes O(steps * heights * longest_tile * rows) time. */
#include "../../tinyweave/planning/search/least_bytes.h"

#include <stdlib.h>

/* A step, as `numbers_of` in ram_model.py describes it. */
typedef struct {
    i64 is_by_rows;          /* whether it can be fused */
    i64 accumulator_bytes;   /* of a mean that accumulates row by row, else 0 */
    i64 side, c_in;          /* its input: side x side x c_in */
    i64 side_out, c_out;     /* its output */
    i64 kernel, stride, pad; /* its window, along both axes */
    i64 back;                /* of an add: its second input is also the input of the step this many steps earlier; else 0 */
    i64 forth;               /* of a step whose input an add reads too: the add is this many steps later; else 0 */
    i64 macs;
    i64 distance;            /* bytes that its output must begin below its input, if they overlap */
    i64 is_in_place;         /* whether it reads each byte before it writes the byte at the same place */
    i64 is_map;              /* whether its output is a feature map */
} chain_step;

#define HEIGHTS 4    /* of tiles */
#define MOST_TILED 8 /* ops of a tile */
#define WORD 4       /* bytes, to which buffers are aligned */

/* The arguments of `least_bytes` of ram_model.py, without the chain. */
typedef struct {
    i64 most_tilings, most_ticks, longest_stage, longest_tile; /* limits of the search */
    i64 mac_budget;                                            /* multiply-accumulates that may be recomputed */
    i64 is_streamed;                                           /* whether the network's input arrives row by row */
    i64 heights[HEIGHTS];                                      /* rows of tiles */
} chain_request;

static i64 align(i64 bytes) { return (bytes + WORD - 1) / WORD * WORD; }

/* One block of memory for all columns of the problem. free: its unused part. */
typedef struct {
    i64 *all, *free;
} memory_block;

static i64 *column(memory_block *m, i64 count)
{
    i64 *const begin = m->free;
    m->free += count;
    return begin;
}

/* A table `row_reads` under construction; count: rows filled so far. */
typedef struct {
    i64 *at, *tensor, *extent, *stride, *pad, *up, *phase, count;
} read_columns;

static read_columns columns_of_reads(memory_block *m, i64 readers, i64 count)
{
    return (read_columns){column(m, readers), column(m, count), column(m, count), column(m, count),
                          column(m, count),   column(m, count), column(m, count), 0};
}

static row_reads as_row_reads(const read_columns *c)
{
    return (row_reads){c->at, c->tensor, c->extent, c->stride, c->pad, c->up, c->phase};
}

static void add_read(read_columns *c, i64 tensor, window w)
{
    c->tensor[c->count] = tensor;
    c->extent[c->count] = w.extent;
    c->stride[c->count] = w.stride;
    c->pad[c->count] = w.pad;
    c->up[c->count] = w.up;
    c->phase[c->count++] = w.phase;
}

/* The window through which an output reads a step's input, if `outer` is its window on the step's output. */
static window compose(window outer, const chain_step *step)
{
    return (window){(outer.extent - 1) * step->stride + step->kernel, outer.stride * step->stride,
                    outer.pad * step->stride + step->pad, 1, 0};
}

/* `tile_accesses` of fuse/row_access.py: set the one or two tensors that `rows` output rows of the steps [begin, end) read from
 * outside the tile, and their windows. Return the number of tensors, or 0 if the steps cannot form a tile. */
static i64 tile_accesses(const chain_step *steps, i64 begin, i64 end, i64 rows, i64 *tensor, window *read)
{
    window own = {rows, rows, 0, 1, 0}, residual = own; /* residual: of the second operand of an add, tensor residual_of */
    i64 residual_of = -1;
    for (i64 k = end - 1; k >= begin; k--) {
        if (!steps[k].is_by_rows || steps[k].accumulator_bytes) return 0;
        if (k < end - 1 && steps[k + 1].forth && k + 1 + steps[k + 1].forth >= end) return 0; /* a later step reads its output */
        if (steps[k].back) {
            residual = compose(own, &steps[k]);
            residual_of = k - steps[k].back;
        }
        own = compose(own, &steps[k]);
        if (k == residual_of) residual_of = -1; /* the block reads all rows of the tensor that the add reads */
    }
    const i64 has_residual = residual_of >= 0;
    tensor[0] = has_residual ? residual_of : begin;
    read[0] = has_residual ? residual : own;
    tensor[1] = begin;
    read[1] = own;
    return 1 + has_residual;
}

/* Row or column spans [begin, end) of a step's output, one per iteration of a tile. */
typedef struct {
    i64 *begin, *end;
} spans;

/* Set the spans of a step's input that it reads for spans of its output, as `Window.read` of ops/window.py does. */
static void spans_read(const chain_step *step, spans of, i64 count, spans to)
{
    for (i64 i = 0; i < count; i++) {
        const i64 first = minimum(maximum(of.begin[i] * step->stride - step->pad, 0), step->side);
        const i64 last = minimum((of.end[i] - 1) * step->stride - step->pad + step->kernel, step->side);
        to.begin[i] = first;
        to.end[i] = of.begin[i] < of.end[i] ? maximum(last, first) : first;
    }
}

/* Working memory for the computation of tiles. */
typedef struct {
    spans by_step[MOST_TILED];
    i64 **taps_before; /* per step and row of its output, taps inside the map of the windows of all rows before it */
} tile_space;

/* `tile_spans` and `recomputed_macs` of fuse/row_access.py for the steps [begin, end), `size` rows of the last one's output at a time.
 * Set, per step, the most rows that exist at a time, and the multiply-accumulates beyond computing each row once. */
static void tile_heights(const chain_step *steps, i64 begin, i64 end, i64 size, const tile_space *s, i64 *most, i64 *recomputed)
{
    const i64 side = steps[end - 1].side_out, count = (side + size - 1) / size;
    for (i64 i = 0; i < count; i++) {
        s->by_step[end - 1 - begin].begin[i] = i * size;
        s->by_step[end - 1 - begin].end[i] = minimum((i + 1) * size, side);
    }
    for (i64 k = end - 2; k >= begin; k--) {
        const spans own = s->by_step[k - begin];
        const i64 *const taps_before = s->taps_before[k];
        i64 taps = 0;
        spans_read(&steps[k + 1], s->by_step[k + 1 - begin], count, own); /* a residual add reads no more than its block does */
        most[k - begin] = 0;
        for (i64 i = 0; i < count; i++) {
            taps += taps_before[own.end[i]] - taps_before[own.begin[i]];
            most[k - begin] = maximum(most[k - begin], own.end[i] - own.begin[i]);
        }
        const i64 macs = steps[k].macs;
        recomputed[k - begin] = macs ? macs * taps / taps_before[steps[k].side_out] - macs : 0;
    }
}

/* The same for columns, one column of the last step's output at a time. Overlapping columns are kept (`sliding_spans`). */
static void tile_widths(const chain_step *steps, i64 begin, i64 end, const tile_space *s, i64 *most)
{
    const i64 count = steps[end - 1].side_out;
    for (i64 i = 0; i < count; i++) {
        s->by_step[end - 1 - begin].begin[i] = i;
        s->by_step[end - 1 - begin].end[i] = i + 1;
    }
    for (i64 k = end - 2; k >= begin; k--) {
        const spans own = s->by_step[k - begin];
        spans_read(&steps[k + 1], s->by_step[k + 1 - begin], count, own);
        i64 computed = own.begin[0]; /* columns before it exist */
        most[k - begin] = 0;
        for (i64 i = 0; i < count; i++) {
            const i64 end_of_all = i ? maximum(computed, own.end[i]) : own.end[0];
            most[k - begin] = maximum(most[k - begin], end_of_all - own.begin[i]);
            own.begin[i] = maximum(own.begin[i], computed);
            own.end[i] = computed = end_of_all;
        }
    }
}

/* Whether tiles of a height are tried: `tile_candidates` and `_heights_for_free` of of_graph.py. */
static int is_tried(const chain_request *request, i64 h, i64 rows)
{
    return h == 0 || request->mac_budget || (request->heights[h] / 2 < rows && rows <= request->heights[h]);
}

/* The tiles of the problem, column by column. */
typedef struct {
    i64 *first, *rows, *bytes, *recomputed_macs, count;
    read_columns reads;
} tile_columns;

/* Append the tiles that end with step `end` - 1: `tile_candidates` of of_graph.py. */
static void add_tiles(const chain_request *request, const chain_step *steps, i64 end, i64 mac_budget, const tile_space *s,
                      tile_columns *tiles)
{
    i64 tensor[2], begin = end - 1, widths[MOST_TILED], heights[HEIGHTS][MOST_TILED], recomputed[HEIGHTS][MOST_TILED];
    window windows[2];
    while (begin > maximum(end - request->longest_tile, 0) && tile_accesses(steps, begin - 1, end, 1, tensor, windows)) begin--;
    const i64 first = begin, side = steps[end - 1].side_out;
    i64 tried = 1; /* heights: a row is enough if it recomputes nothing */
    if (first > end - 2) return;
    tile_widths(steps, first, end, s, widths);
    tile_heights(steps, first, end, request->heights[0], s, heights[0], recomputed[0]);
    for (i64 k = 0; k < end - 1 - first; k++)
        if (recomputed[0][k] > 0) tried = HEIGHTS;
    for (i64 h = 1; h < tried; h++)
        if (is_tried(request, h, side)) tile_heights(steps, first, end, request->heights[h], s, heights[h], recomputed[h]);
    for (begin = end - 2; begin >= first; begin--) {
        i64 least_macs = INT64_MAX;
        for (i64 h = 0; h < tried; h++) {
            if (!is_tried(request, h, side)) continue;
            i64 macs = 0, bytes = 0;
            for (i64 k = begin - first; k < end - 1 - first; k++) {
                macs += recomputed[h][k];
                bytes += align(heights[h][k] * widths[k] * steps[first + k].c_out);
            }
            if (macs >= least_macs) break;
            least_macs = macs;
            if (macs > mac_budget) continue;
            tiles->first[tiles->count] = begin;
            tiles->rows[tiles->count] = request->heights[h];
            tiles->bytes[tiles->count] = bytes;
            tiles->recomputed_macs[tiles->count] = macs;
            tiles->reads.at[tiles->count++] = tiles->reads.count;
            const i64 reads = tile_accesses(steps, begin, end, request->heights[h], tensor, windows);
            for (i64 r = 0; r < reads; r++) add_read(&tiles->reads, tensor[r], windows[r]);
        }
    }
}

/* Bytes of a step that runs unfused, without residual tensors that it does not read. */
static i64 unfused_bytes(const chain_step *step)
{
    const i64 read = step->side * step->side * step->c_in, written = step->side_out * step->side_out * step->c_out;
    i64 top = 0, dying = 0;     /* as in `shared_bytes` of stage_overlap.c */
    if (step->back) top = dying = written; /* the output may overlap all of the residual tensor */
    if (!step->forth) {
        top = maximum(top, minimum(align(step->distance), written)) + read;
        dying += read;
    }
    return read + written * (step->back ? 2 : 1) - (dying + written - maximum(top, written));
}

/* Return the peak RAM of the best plan for a chain of `count` steps in bytes, or -1 if malloc fails. */
i64 tw_chain_bytes(const chain_request *request, const chain_step *steps, i64 count)
{
    const i64 most_tiles = count * request->longest_tile * HEIGHTS, tensors = count + 1;
    i64 rows = 0, macs = 0, answer = -1, most_rows = 0;
    for (i64 k = 0; k < count; k++) {
        rows += steps[k].side_out + 1;
        macs += steps[k].macs;
        most_rows = maximum(most_rows, steps[k].side_out);
    }
    const i64 room = 32 * (count + 2) + 20 * most_tiles + rows + 2 * MOST_TILED * (most_rows + 1);
    memory_block m = {.all = malloc((size_t)room * sizeof(i64))};
    tile_space space = {.taps_before = malloc((size_t)tensors * sizeof *space.taps_before)};
    m.free = m.all;
    if (!m.all || !space.taps_before) goto end;
    for (i64 k = 0; k < MOST_TILED; k++) space.by_step[k] = (spans){column(&m, most_rows + 1), column(&m, most_rows + 1)};

    i64 *const tensor_bytes = column(&m, tensors), *const tensor_rows = column(&m, tensors);
    i64 *const tensor_row_bytes = column(&m, tensors), *const born = column(&m, tensors), *const dies = column(&m, tensors);
    i64 *const first_reader = column(&m, tensors), *const last_reader = column(&m, tensors);
    i64 *const is_persistent = column(&m, tensors), *const is_streamed = column(&m, tensors), *const none = column(&m, tensors);
    for (i64 k = 0; k <= count; k++) {
        const i64 side = k ? steps[k - 1].side_out : steps->side, channels = k ? steps[k - 1].c_out : steps->c_in;
        const int is_map = !k || steps[k - 1].is_map;
        const i64 skip = k < count ? steps[k].forth : 0;
        tensor_bytes[k] = side * side * channels;
        tensor_rows[k] = is_map ? side : 1;
        tensor_row_bytes[k] = is_map ? side * channels : 0;
        born[k] = k || request->is_streamed ? maximum(k - 1, 0) : -1;
        dies[k] = k < count ? k + skip + 1 : count;
        first_reader[k] = k < count ? k : NEVER;
        last_reader[k] = k < count ? k + skip : NEVER;
        is_persistent[k] = k == count;
        is_streamed[k] = !k && request->is_streamed;
        none[k] = 0;
    }

    i64 *const output = column(&m, count), *const op_rows = column(&m, count), *const accumulator_bytes = column(&m, count);
    i64 *const unfused = column(&m, count), *const is_by_rows = column(&m, count), *const is_in_place = column(&m, 2 * count);
    read_columns reads = columns_of_reads(&m, count + 1, 2 * count);
    for (i64 k = 0; k < count; k++) {
        const chain_step *const step = &steps[k];
        const window own = {step->kernel, step->stride, step->pad, 1, 0}, residual = {1, 1, 0, 1, 0};
        output[k] = k + 1;
        op_rows[k] = step->accumulator_bytes ? step->side : step->is_map ? step->side_out : 1;
        accumulator_bytes[k] = step->accumulator_bytes;
        unfused[k] = is_streamed[k] ? NEVER : unfused_bytes(step);
        is_by_rows[k] = step->is_by_rows;
        reads.at[k] = reads.count;
        is_in_place[reads.count] = is_in_place[reads.count + 1] = step->is_in_place;
        if (step->is_by_rows && step->back) add_read(&reads, k - step->back, residual);
        if (step->is_by_rows) add_read(&reads, k, own);
        i64 *const taps_before = space.taps_before[k] = column(&m, step->side_out + 1);
        taps_before[0] = 0;
        for (i64 row = 0; row < step->side_out; row++) {
            const i64 first = row * step->stride - step->pad;
            const i64 taps = minimum(step->side, first + step->kernel) - maximum(0, first);
            taps_before[row + 1] = taps_before[row] + maximum(taps, 0);
        }
    }
    reads.at[count] = reads.count;
    for (i64 k = 0; k < count; k++) /* residual tensors are alive in the steps that they skip */
        for (i64 step = k + 1; step < k + steps[k].forth; step++)
            if (unfused[step] < NEVER) unfused[step] += tensor_bytes[k];

    i64 *const tile_at = column(&m, count + 1);
    tile_columns tiles = {column(&m, most_tiles), column(&m, most_tiles), column(&m, most_tiles), column(&m, most_tiles), 0,
                          columns_of_reads(&m, most_tiles + 1, 2 * most_tiles)};
    const i64 mac_budget = request->mac_budget ? maximum(request->mac_budget, macs) : 0;
    for (i64 end = 1; end <= count; end++) {
        tile_at[end - 1] = tiles.count;
        add_tiles(request, steps, end, mac_budget, &space, &tiles);
    }
    tile_at[count] = tiles.count;
    tiles.reads.at[tiles.count] = tiles.reads.count;

    const problem p = {
        .op_count = count,
        .tensor_count = tensors,
        .longest_stage = request->longest_stage,
        .most_tilings = request->most_tilings,
        .most_ticks = request->most_ticks,
        .arena_floor = -1,
        .one_tile_per_stage = 0,
        .tensor_bytes = tensor_bytes,
        .tensor_rows = tensor_rows,
        .tensor_row_bytes = tensor_row_bytes,
        .tensor_born = born,
        .tensor_dies = dies,
        .tensor_is_persistent = is_persistent,
        .tensor_first_reader = first_reader,
        .tensor_last_reader = last_reader,
        .tensor_is_streamed_input = is_streamed,
        .tensor_is_streamed_output = none,
        .op_output = output,
        .op_rows = op_rows,
        .op_accumulator_bytes = accumulator_bytes,
        .op_unfused_bytes = unfused,
        .op_is_by_rows = is_by_rows,
        .op_reads = as_row_reads(&reads),
        .tile_at = tile_at,
        .tile_first = tiles.first,
        .tile_rows = tiles.rows,
        .tile_bytes = tiles.bytes,
        .tile_recomputed_macs = tiles.recomputed_macs,
        .tile_reads = as_row_reads(&tiles.reads),
    };
    answer = tw_least_bytes(&p, is_in_place, request->mac_budget, request->longest_tile);
end:
    free(m.all);
    free(space.taps_before);
    return answer;
}
