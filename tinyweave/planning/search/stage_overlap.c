/* Splits a stage into nodes (tiles and untiled ops) and computes the timing of each node, as `row_timings` of fuse/row_schedule.py
 * does. From these follows the overlap distance of the output to each tensor that dies in the stage (`distances` there). */
#include "stage_overlap.h"

#define WORD 4 /* bytes, to which buffers are aligned */

/* The row accesses of a node: the entries [*begin, *end) of the result. */
static const row_reads *reads_of(const problem *p, const node *n, i64 *begin, i64 *end)
{
    const row_reads *const reads = n->tile < 0 ? &p->op_reads : &p->tile_reads;
    const i64 at = n->tile < 0 ? n->begin : n->tile;
    *begin = reads->at[at];
    *end = reads->at[at + 1];
    return reads;
}

/* Set the nodes of a stage, without their timing; return how many there are. */
static i64 split_into_nodes(const overlap_space *s, const stage_columns *stages, i64 tiling)
{
    const problem *const p = s->problem;
    const i64 stage = stages->stage.at[tiling], end = stages->end.at[stage], tiles_end = stages->tiles_at.at[tiling + 1];
    i64 next = stages->tiles_at.at[tiling], count = 0;
    for (i64 x = 0; x < p->tensor_count; x++) s->node_of[x] = -1;
    for (i64 step = stages->begin.at[stage]; step < end; count++) {
        node *const n = &s->nodes[count];
        const int is_tile = next < tiles_end && p->tile_first[stages->tiles.at[next]] == step;
        n->begin = step;
        n->tile = is_tile ? stages->tiles.at[next++] : -1;
        n->rows = is_tile ? p->tile_rows[n->tile] : 1;
        if (is_tile)
            while (n->tile >= p->tile_at[step + 1]) step++; /* to the step that the tile ends with */
        n->end = ++step;
        s->node_of[p->op_output[n->end - 1]] = count;
    }
    return count;
}

/* Set row_ticks, needed_rows and iterations of all nodes; 0 if they cannot run in one stage. */
static int set_pace(const overlap_space *s, i64 count)
{
    const problem *const p = s->problem;
    const i64 stage_begin = s->nodes[0].begin, stage_end = s->nodes[count - 1].end;
    i64 begin, end, ticks = 1, divisor = 0;
    for (i64 k = 0; k < count; k++) {
        node *const n = &s->nodes[k];
        const row_reads *const reads = reads_of(p, n, &begin, &end);
        const i64 x = p->op_output[n->end - 1];
        i64 stride = 1;
        for (i64 r = begin; r < end; r++) stride = maximum(stride, reads->stride[r] / n->rows);
        ticks *= stride;
        if (ticks > p->most_ticks) return 0;
        n->row_ticks = n->first_tick = 0;
        n->needed_rows = k == count - 1 || !is_internal(p, x, stage_begin, stage_end) ? p->tensor_rows[x] : 0;
    }
    s->nodes[count - 1].row_ticks = ticks;
    s->nodes[count - 1].needed_rows = p->op_rows[stage_end - 1];
    for (i64 k = count - 1; k >= 0; k--) {
        node *const n = &s->nodes[k];
        const row_reads *const reads = reads_of(p, n, &begin, &end);
        if (!n->row_ticks || n->needed_rows < 1) return 0;
        n->iterations = (n->needed_rows + n->rows - 1) / n->rows;
        divisor = greatest_common_divisor(n->row_ticks, divisor);
        for (i64 r = begin; r < end; r++) {
            const i64 x = reads->tensor[r];
            if (s->node_of[x] < 0) continue;
            node *const source = &s->nodes[s->node_of[x]];
            const i64 stride = reads->stride[r] / n->rows;
            if (!stride || (source->row_ticks && source->row_ticks != n->row_ticks / stride)) return 0;
            source->row_ticks = n->row_ticks / stride;
            const i64 last = (n->needed_rows - n->rows) * stride - reads->pad[r] + reads->extent[r];
            source->needed_rows = maximum(source->needed_rows, minimum(p->tensor_rows[x], last));
        }
    }
    for (i64 k = 0; k < count; k++) s->nodes[k].row_ticks /= divisor;
    return 1;
}

/* Set first_tick of all nodes: each as soon as the rows of its first iteration exist. */
static void set_first_ticks(const overlap_space *s, i64 count)
{
    i64 begin, end;
    for (i64 k = 0; k < count; k++) {
        node *const n = &s->nodes[k];
        const row_reads *const reads = reads_of(s->problem, n, &begin, &end);
        i64 first = INT64_MIN;
        for (i64 r = begin; r < end; r++) {
            const i64 from = s->node_of[reads->tensor[r]];
            if (from < 0) continue;
            const node *const source = &s->nodes[from];
            const i64 reach = reads->extent[r] - 1 - reads->pad[r];
            const i64 steps = greatest_common_divisor(reads->stride[r], source->rows);
            first = maximum(first, source->first_tick + source->row_ticks * (floor_divide(reach, steps) * steps));
        }
        n->first_tick = first == INT64_MIN ? 0 : first;
    }
}

/* How far below the tensor that node k reads with read r the output of the last node must begin. */
static i64 overlap_distance(const overlap_space *s, i64 count, i64 k, const row_reads *reads, i64 r)
{
    const problem *const p = s->problem;
    const node *const n = &s->nodes[k], *const last = &s->nodes[count - 1];
    const i64 step = last->end - 1, out = p->op_output[step], x = reads->tensor[r], size = p->tensor_row_bytes[x];
    const int accumulates = p->op_accumulator_bytes[step] > 0; /* then all is written with the last row */
    i64 distance = 0;
    for (i64 i = accumulates ? last->iterations - 1 : 0; i < last->iterations; i++) {
        const i64 rows = minimum((i + 1) * last->rows, last->needed_rows);
        const i64 written = accumulates ? p->tensor_bytes[out] : rows * p->tensor_row_bytes[out];
        i64 done = i; /* iterations of n before this one of the last node writes */
        if (k < count - 1) {
            const i64 ahead = last->first_tick + i * last->rows * last->row_ticks - n->first_tick;
            done = minimum(maximum(floor_divide(ahead, n->rows * n->row_ticks) + 1, 0), n->iterations);
        } else if (n->tile < 0 && s->is_in_place[r]) {
            const i64 first_rows = minimum(last->rows, last->needed_rows);
            const i64 first_written = accumulates ? p->tensor_bytes[out] : first_rows * p->tensor_row_bytes[out];
            done += first_written == size;
        }
        const i64 oldest = minimum(maximum(done * reads->stride[r] - reads->pad[r], 0), p->tensor_rows[x]);
        if (done < n->iterations) distance = maximum(distance, written - oldest * size);
    }
    return distance;
}

/* Whether a tensor exists before the steps [begin, end) and is not used after them. */
static int dies_in(const problem *p, i64 x, i64 begin, i64 end)
{
    return p->tensor_dies[x] && p->tensor_born[x] < begin && begin < p->tensor_dies[x] && p->tensor_dies[x] <= end &&
           !p->tensor_is_persistent[x] && !p->tensor_is_streamed_input[x];
}

/* Bytes that an output shares with tensors above it, the nearest lowest: `shared_bytes` of alias/overlap.py. distance: per tensor,
 * -1 if it does not die in the stage; used up. */
static i64 shared_bytes(const problem *p, i64 out_bytes, i64 *distance)
{
    i64 total = 0, top = 0;
    for (;;) {
        i64 nearest = -1;
        for (i64 x = 0; x < p->tensor_count; x++)
            if (distance[x] >= 0 && (nearest < 0 || distance[x] < distance[nearest] ||
                                     (distance[x] == distance[nearest] && p->tensor_bytes[x] < p->tensor_bytes[nearest])))
                nearest = x;
        if (nearest < 0) return total + out_bytes - maximum(top, out_bytes);
        const i64 aligned = (distance[nearest] + WORD - 1) / WORD * WORD;
        top = maximum(top, minimum(aligned, out_bytes)) + p->tensor_bytes[nearest];
        total += p->tensor_bytes[nearest];
        distance[nearest] = -1;
    }
}

i64 tw_stage_overlap(const overlap_space *s, const stage_columns *stages, i64 tiling)
{
    const problem *const p = s->problem;
    const i64 stage = stages->stage.at[tiling], stage_begin = stages->begin.at[stage], stage_end = stages->end.at[stage];
    const i64 count = split_into_nodes(s, stages, tiling);
    i64 begin, end;
    if (!set_pace(s, count)) return 0;
    set_first_ticks(s, count);
    i64 *const distance = s->node_of; /* no longer needed as the nodes of tensors */
    for (i64 x = 0; x < p->tensor_count; x++) {
        const int dies = dies_in(p, x, stage_begin, stage_end);
        distance[x] = -1;
        for (i64 k = 0; dies && k < count; k++) {
            const row_reads *const reads = reads_of(p, &s->nodes[k], &begin, &end);
            for (i64 r = begin; r < end; r++)
                if (reads->tensor[r] == x) distance[x] = maximum(distance[x], overlap_distance(s, count, k, reads, r));
        }
    }
    return shared_bytes(p, p->tensor_bytes[p->op_output[stage_end - 1]], distance);
}
