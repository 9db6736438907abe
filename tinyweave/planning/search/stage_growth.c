/* Grows fused stages op by op, as stage_growth.py specifies; stage_growth.h describes the tables and the complexity.
 *
 * The functions have the names and the order of those in stage_growth.py. Unlike there, `stage_tensor`s are stored by tensor
 * number, the reads of all sources in one list, and a tiling as its last tile and the index of the tiling without that tile. */
#include "stage_growth.h"

#include <stdlib.h>
#include <string.h>

static const tiling_option NO_TILES = {.shorter = -1, .tile = -1};

static void push(stage_columns *out, vector *to, i64 value)
{
    if (to->count == to->room) {
        const i64 room = to->room ? 2 * to->room : 256;
        i64 *const at = realloc(to->at, (size_t)room * sizeof *at);
        if (!at) {
            out->failed = 1;
            return;
        }
        to->at = at;
        to->room = room;
    }
    to->at[to->count++] = value;
}

/* Rows from the oldest that is read to the newest, when the reader has waited so many ticks: `Window.kept` of ops/window.py. */
static i64 rows_kept(window w, i64 row_ticks, i64 waited)
{
    return w.pad + 1 - floor_divide(w.phase - floor_divide(waited, row_ticks / w.up), w.up);
}

static void add_tensor(growth *g, i64 x, i64 row_ticks, i64 first_tick, i64 clock, i64 is_source)
{
    g->tensors[x] = (stage_tensor){
        .row_ticks = row_ticks, .first_tick = first_tick, .start_tick = first_tick, .buffer_rows = 1,
        .is_source = is_source, .clock = clock, .is_present = 1, .is_unread = g->tensors[x].is_unread,
    };
    g->present[g->present_count++] = x;
}

/* Multiply the ticks of a tensor by a factor; 0 if there are too many to count. */
static int slow_down(const growth *g, stage_tensor *x, i64 factor)
{
    return !__builtin_mul_overflow(x->row_ticks, factor, &x->row_ticks) &&
           !__builtin_mul_overflow(x->first_tick, factor, &x->first_tick) &&
           !__builtin_mul_overflow(x->start_tick, factor, &x->start_tick) && x->row_ticks <= g->problem->most_ticks &&
           x->first_tick <= g->problem->most_ticks;
}

/* Give the tensors of two reads by the same op one clock; 0 if their rows cannot keep pace. */
static int join_clocks(growth *g, i64 one, i64 other)
{
    const row_reads *const reads = &g->problem->op_reads;
    const stage_tensor *const x = &g->tensors[reads->tensor[one]], *const y = &g->tensors[reads->tensor[other]];
    const i64 ticks_x = x->row_ticks / reads->up[one] * reads->stride[one];
    const i64 ticks_y = y->row_ticks / reads->up[other] * reads->stride[other];
    const i64 clock = x->clock, joined = y->clock, divisor = greatest_common_divisor(ticks_x, ticks_y);
    if (clock == joined) return ticks_x == ticks_y; /* unequal if two paths of different strides lead from one tensor to the op */
    for (i64 k = 0; k < g->present_count; k++) {
        stage_tensor *const each = &g->tensors[g->present[k]];
        if (each->clock != clock && each->clock != joined) continue;
        if (!slow_down(g, each, each->clock == clock ? ticks_y / divisor : ticks_x / divisor)) return 0;
        each->clock = clock;
    }
    return 1;
}

/* Start a source as late as its readers allow, and set the rows that its line buffer then holds. */
static void delay_source(growth *g, i64 x)
{
    stage_tensor *const source = &g->tensors[x];
    const source_read *const reads = g->source_reads;
    source->start_tick = INT64_MAX;
    source->buffer_rows = 0;
    for (i64 k = 0; k < g->source_read_count; k++)
        if (reads[k].source == x) {
            const i64 needed_at = g->tensors[reads[k].reader].first_tick - ticks_to_wait(reads[k].window, source->row_ticks);
            source->start_tick = minimum(source->start_tick, needed_at);
        }
    for (i64 k = 0; k < g->source_read_count; k++)
        if (reads[k].source == x) {
            const i64 waited = g->tensors[reads[k].reader].first_tick - source->start_tick;
            source->buffer_rows = maximum(source->buffer_rows, rows_kept(reads[k].window, source->row_ticks, waited));
        }
}

/* Multiply the ticks of an upsampling op's inputs, so that several output rows fit in the time of one input row; 0 if there are too
 * many ticks. [begin, end): reads of the op. */
static int refine_clock(growth *g, i64 begin, i64 end)
{
    const row_reads *const reads = &g->problem->op_reads;
    i64 up = 1;
    for (i64 r = begin; r < end; r++)
        if (g->tensors[reads->tensor[r]].is_present) up = up / greatest_common_divisor(up, reads->up[r]) * reads->up[r];
    for (i64 k = 0; k < g->present_count && up > 1; k++) {
        stage_tensor *const each = &g->tensors[g->present[k]];
        int is_read = 0;
        for (i64 r = begin; r < end; r++) {
            const stage_tensor *const read = &g->tensors[reads->tensor[r]];
            is_read |= read->is_present && read->clock == each->clock;
        }
        if (is_read && !slow_down(g, each, up)) return 0;
    }
    return 1;
}

/* Extend the stage by an op; 0 if it cannot run in the stage. */
static int add_op(growth *g, i64 step)
{
    const problem *const p = g->problem;
    const row_reads *const reads = &p->op_reads;
    const i64 begin = reads->at[step], end = reads->at[step + 1], out = p->op_output[step];
    i64 one = -1; /* the first read of a tensor in the stage */
    if (!p->op_is_by_rows[step]) return 0;
    for (i64 r = begin; r < end; r++) {
        const i64 x = reads->tensor[r];
        if (p->tensor_is_streamed_input[x] && !g->tensors[x].is_present) add_tensor(g, x, 1, 0, x, 1);
        if (g->tensors[x].is_present && one < 0) one = r;
    }
    for (i64 r = begin; r < end; r++) /* stride 0: the op needs the whole tensor first */
        if (g->tensors[reads->tensor[r]].is_present && !reads->stride[r]) return 0;
    if (!refine_clock(g, begin, end)) return 0;
    for (i64 r = one + 1; one >= 0 && r < end; r++)
        if (g->tensors[reads->tensor[r]].is_present && !join_clocks(g, one, r)) return 0;
    i64 row_ticks = 1, first_tick = 0, clock = out, most_wait;
    if (one >= 0) {
        const stage_tensor *const x = &g->tensors[reads->tensor[one]];
        if (__builtin_mul_overflow(x->row_ticks / reads->up[one], reads->stride[one], &row_ticks)) return 0;
        clock = x->clock;
        first_tick = INT64_MIN;
    }
    for (i64 r = begin; r < end; r++) {
        const stage_tensor *const x = &g->tensors[reads->tensor[r]];
        if (!x->is_present) continue;
        if (__builtin_mul_overflow(x->row_ticks, reads->extent[r] - reads->pad[r], &most_wait)) return 0; /* more than the wait */
        first_tick = maximum(first_tick, x->first_tick + ticks_to_wait(window_of(reads, r), x->row_ticks));
    }
    if (row_ticks > p->most_ticks || first_tick > p->most_ticks) return 0;
    add_tensor(g, out, row_ticks, first_tick, clock, one < 0);
    for (i64 r = begin; r < end; r++) {
        stage_tensor *const x = &g->tensors[reads->tensor[r]];
        if (!x->is_present || reads->tensor[r] == out) continue;
        const window w = window_of(reads, r);
        g->unread -= x->is_unread;
        x->is_unread = 0;
        if (x->is_source)
            g->source_reads[g->source_read_count++] = (source_read){reads->tensor[r], out, w};
        else
            x->buffer_rows = maximum(x->buffer_rows, rows_kept(w, x->row_ticks, first_tick - x->first_tick));
    }
    for (i64 r = begin; r < end; r++) {
        const i64 x = reads->tensor[r];
        if (g->tensors[x].is_present && g->tensors[x].is_source && x != out) delay_source(g, x);
    }
    return 1;
}

/* Bytes added if a line buffer grows from `rows` to `more_rows` rows; it holds at most the whole tensor. */
static i64 added_buffer_bytes(const problem *p, i64 x, i64 rows, i64 more_rows)
{
    return (minimum(more_rows, p->tensor_rows[x]) - minimum(rows, p->tensor_rows[x])) * p->tensor_row_bytes[x];
}

/* Line-buffer bytes that a tile at the end of the stage saves; output_buffer: how many fewer if the stage continues. */
static i64 bytes_saved_by_tile(const growth *g, i64 tile, i64 end, i64 *output_buffer)
{
    const problem *const p = g->problem;
    const row_reads *const reads = &p->tile_reads;
    const i64 last = p->op_output[end - 1], last_rows = g->tensors[last].buffer_rows;
    i64 saved = 0, tick = INT64_MIN; /* tick: at which the first row of the tile is computed */
    for (i64 step = p->tile_first[tile]; step < end - 1; step++) {
        const i64 x = p->op_output[step];
        saved += minimum(g->tensors[x].buffer_rows, p->tensor_rows[x]) * p->tensor_row_bytes[x];
    }
    for (i64 r = reads->at[tile]; r < reads->at[tile + 1]; r++) {
        const stage_tensor *const x = &g->tensors[reads->tensor[r]];
        if (x->is_present) tick = maximum(tick, x->start_tick + ticks_to_wait(window_of(reads, r), x->row_ticks));
    }
    for (i64 r = reads->at[tile]; r < reads->at[tile + 1]; r++) {
        const stage_tensor *const x = &g->tensors[reads->tensor[r]];
        if (!x->is_present) continue;
        const i64 rows = rows_kept(window_of(reads, r), x->row_ticks, tick - x->start_tick);
        saved -= added_buffer_bytes(p, reads->tensor[r], x->buffer_rows, maximum(x->buffer_rows, rows));
    }
    const i64 taller = added_buffer_bytes(p, last, last_rows, last_rows + p->tile_rows[tile] - 1);
    *output_buffer = p->tensor_is_streamed_output[last] ? 0 : taller;
    return p->tensor_is_streamed_output[last] ? saved - taller : saved;
}

/* Order pointers to tilings for qsort, the best first; ties are broken by address, so that the sort is stable. */
static int compare_tilings(const void *left, const void *right)
{
    const tiling_option *const a = *(const tiling_option *const *)left, *const b = *(const tiling_option *const *)right;
    if (net_bytes(a) != net_bytes(b)) return net_bytes(a) < net_bytes(b) ? -1 : 1;
    if (a->recomputed_macs != b->recomputed_macs) return a->recomputed_macs < b->recomputed_macs ? -1 : 1;
    if (a->tile_bytes != b->tile_bytes) return a->tile_bytes < b->tile_bytes ? -1 : 1;
    if (a->tile_count != b->tile_count) return a->tile_count < b->tile_count ? -1 : 1;
    return a < b ? -1 : 1;
}

/* Whether a tiling is at least as good as another in saved bytes, tile buffer and recomputation. */
static int dominates(const tiling_option *one, const tiling_option *other)
{
    return one->saved - maximum(one->output_buffer - other->output_buffer, 0) >= other->saved &&
           one->tile_bytes <= other->tile_bytes && one->recomputed_macs <= other->recomputed_macs;
}

/* Append to the `kept` tilings of `front` at most `most` options: the best that no other tiling dominates. Return the new count. */
static i64 keep_best_tilings(const tiling_option **options, i64 count, tiling_option *front, i64 kept, i64 most)
{
    const i64 limit = kept + most;
    qsort(options, (size_t)count, sizeof *options, compare_tilings);
    for (i64 k = 0; k < count && kept < limit; k++) {
        i64 f = 0;
        while (f < kept && !dominates(&front[f], options[k])) f++;
        if (f == kept) front[kept++] = *options[k];
    }
    return kept;
}

/* Append an option; 0 if there is not enough memory. */
static int push_option(growth *g, i64 *count, tiling_option option)
{
    if (*count == g->option_room) {
        tiling_option *const options = realloc(g->options, (size_t)g->option_room * 2 * sizeof *options);
        if (!options) return 0;
        g->options = options;
        g->option_room *= 2;
    }
    g->options[(*count)++] = option;
    return 1;
}

/* Append the `count` tilings of `front` to the kept ones, as those of the stage with one op more; 0 if there is not enough memory. */
static int keep_front(growth *g, i64 count, i64 ops)
{
    if (g->kept_count + count > g->kept_room) {
        const i64 room = 2 * g->kept_room + count;
        tiling_option *const kept = realloc(g->kept, (size_t)room * sizeof *kept);
        if (!kept) return 0;
        g->kept = kept;
        g->kept_room = room;
    }
    memcpy(&g->kept[g->kept_count], g->front, (size_t)count * sizeof *g->front);
    g->kept_count += count;
    g->kept_at[ops + 1] = g->kept_count;
    return 1;
}

/* Append the tilings of the stage that has grown to the ops [begin, end); 0 if there is not enough memory. */
static int extend_tilings(growth *g, i64 begin, i64 end)
{
    const problem *const p = g->problem;
    const i64 ops = end - begin;
    i64 count = 0, kept = 0;
    if (!p->one_tile_per_stage)
        for (i64 k = g->kept_at[ops - 1]; k < g->kept_at[ops]; k++) {
            tiling_option continued = g->kept[k];
            continued.saved -= continued.output_buffer;
            continued.output_buffer = 0;
            if (!push_option(g, &count, continued)) return 0;
        }
    for (i64 tile = p->tile_at[end - 1]; tile < p->tile_at[end]; tile++) {
        const i64 before = p->tile_first[tile] - begin; /* ops of the stage before the tile */
        i64 output_buffer;
        if (before < 0 || (p->one_tile_per_stage && before > 0)) continue;
        const i64 saved = bytes_saved_by_tile(g, tile, end, &output_buffer);
        if (saved <= 0 && !p->one_tile_per_stage) continue;
        for (i64 k = g->kept_at[before]; k < g->kept_at[before + 1]; k++) {
            const tiling_option *const shorter = &g->kept[k];
            const tiling_option with_tile = {
                .saved = shorter->saved - shorter->output_buffer + saved,
                .tile_bytes = maximum(shorter->tile_bytes, p->tile_bytes[tile]),
                .recomputed_macs = shorter->recomputed_macs + p->tile_recomputed_macs[tile],
                .output_buffer = output_buffer,
                .tile_count = shorter->tile_count + 1,
                .shorter = k,
                .tile = tile,
            };
            if (!push_option(g, &count, with_tile)) return 0;
        }
    }
    if (p->one_tile_per_stage) {
        for (; kept < count; kept++) g->front[kept] = g->options[kept];
        if (ops == 1) g->front[kept++] = NO_TILES;
        return keep_front(g, kept, ops);
    }
    const tiling_option **const sorted = malloc(((size_t)count + 1) * sizeof *sorted);
    if (!sorted) return 0;
    for (int recomputes = 0; recomputes < 2; recomputes++) {
        i64 chosen = 0;
        for (i64 k = 0; k < count; k++)
            if (!g->options[k].recomputed_macs == !recomputes) sorted[chosen++] = &g->options[k];
        kept = keep_best_tilings(sorted, chosen, g->front, kept, p->most_tilings);
    }
    free(sorted);
    i64 f = 0;
    while (f < kept && g->front[f].tile_count) f++;
    if (f == kept) g->front[kept++] = NO_TILES;
    return keep_front(g, kept, ops);
}

/* Set `needed`: all rows of a tensor if a later step reads it, else those that the stage reads. */
static void rows_needed(growth *g, i64 begin, i64 end)
{
    const problem *const p = g->problem;
    const row_reads *const reads = &p->op_reads;
    for (i64 k = 0; k < g->present_count; k++) {
        const i64 x = g->present[k];
        g->needed[x] = is_internal(p, x, begin, end) ? 0 : p->tensor_rows[x];
    }
    g->needed[p->op_output[end - 1]] = p->op_rows[end - 1];
    for (i64 step = end - 1; step >= begin; step--)
        for (i64 r = reads->at[step]; r < reads->at[step + 1]; r++) {
            const i64 x = reads->tensor[r];
            if (!g->tensors[x].is_present) continue;
            const window w = window_of(reads, r);
            const i64 last_row = g->needed[p->op_output[step]] - 1;
            const i64 last = floor_divide(last_row * w.stride + w.phase, w.up) - w.pad + w.extent;
            g->needed[x] = maximum(g->needed[x], minimum(p->tensor_rows[x], last));
        }
}

/* Set what the stage needs without tiles, and `needed`; 0 if an op outside the stage reads a streamed input. */
static int stage_memory(growth *g, i64 begin, i64 end, i64 *bytes, i64 *most_overlap)
{
    const problem *const p = g->problem;
    i64 dying = 0;
    *bytes = p->op_accumulator_bytes[end - 1];
    rows_needed(g, begin, end);
    for (i64 x = 0; x < p->tensor_count; x++) {
        const i64 born = p->tensor_born[x], dies = p->tensor_dies[x];
        const int ends_here = dies <= end && !p->tensor_is_persistent[x];
        if (born >= end || dies <= begin || !dies) continue;
        if (p->tensor_is_streamed_input[x]) {
            if (!g->tensors[x].is_present) continue;
            if (!is_internal(p, x, begin, end)) return 0;
            *bytes += minimum(g->tensors[x].buffer_rows, g->needed[x]) * p->tensor_row_bytes[x];
        } else if (born >= begin && ends_here) {
            *bytes += minimum(g->tensors[x].buffer_rows, g->needed[x]) * p->tensor_row_bytes[x];
        } else {
            *bytes += p->tensor_bytes[x];
            if (born < begin && ends_here) dying += p->tensor_bytes[x];
        }
    }
    *most_overlap = minimum(dying, p->tensor_bytes[p->op_output[end - 1]]);
    return 1;
}

/* Append the stage [begin, end) to the output, without its tilings. */
static void push_stage(growth *g, i64 begin, i64 end, i64 bytes, i64 most_overlap)
{
    const problem *const p = g->problem;
    stage_columns *const out = g->out;
    push(out, &out->begin, begin);
    push(out, &out->end, end);
    push(out, &out->bytes, bytes);
    push(out, &out->most_overlap, most_overlap);
    for (i64 step = begin; step < end; step++)
        if (g->needed[p->op_output[step]] < p->op_rows[step]) {
            push(out, &out->fewer_step, step);
            push(out, &out->fewer_rows, g->needed[p->op_output[step]]);
        }
    push(out, &out->fewer_at, out->fewer_step.count);
    g->is_reached[end] = 1;
}

/* Append the stage [begin, end) to the output, with the tilings that may need less than its steps do unfused, if there are any. */
static void emit_stage(growth *g, i64 begin, i64 end, i64 unfused_peak)
{
    const problem *const p = g->problem;
    stage_columns *const out = g->out;
    i64 bytes, most_overlap;
    int is_new = 1;
    if (!stage_memory(g, begin, end, &bytes, &most_overlap)) return;
    for (i64 k = g->kept_at[end - begin]; k < g->kept_at[end - begin + 1]; k++) {
        const tiling_option *const t = &g->kept[k];
        if (bytes + net_bytes(t) - most_overlap >= unfused_peak) continue;
        if (t->tile_count && t->recomputed_macs >= 0 && bytes <= p->arena_floor) continue;
        if (is_new) push_stage(g, begin, end, bytes, most_overlap);
        is_new = 0;
        push(out, &out->stage, out->begin.count - 1);
        push(out, &out->saved, t->saved);
        push(out, &out->tile_bytes, t->tile_bytes);
        push(out, &out->recomputed_macs, t->recomputed_macs);
        for (i64 count = 0; count < t->tile_count; count++) push(out, &out->tiles, 0);
        if (out->failed) return;
        i64 at = out->tiles.count;
        for (const tiling_option *each = t; each->tile_count; each = &g->kept[each->shorter]) out->tiles.at[--at] = each->tile;
        push(out, &out->tiles_at, out->tiles.count);
    }
}

void tw_grow_stages_from(growth *g, i64 begin)
{
    const problem *const p = g->problem;
    const i64 last = minimum(p->op_count, begin + p->longest_stage), unfused_bytes = p->op_unfused_bytes[begin];
    i64 unfused_peak = unfused_bytes;
    for (i64 k = 0; k < g->present_count; k++) memset(&g->tensors[g->present[k]], 0, sizeof *g->tensors);
    g->present_count = g->unread = g->source_read_count = 0;
    g->kept[0] = NO_TILES;
    g->kept_count = 1;
    g->kept_at[0] = 0;
    g->kept_at[1] = 1;
    for (i64 end = begin + 1; end <= last && add_op(g, end - 1); end++) {
        unfused_peak = maximum(unfused_peak, p->op_unfused_bytes[end - 1]);
        if (!extend_tilings(g, begin, end)) g->out->failed = 1;
        if (g->out->failed) return;
        const int is_fused = end > begin + 1 || unfused_bytes >= NEVER;
        if (!g->unread && end > g->emit_after && is_fused) emit_stage(g, begin, end, unfused_peak);
        if (p->op_accumulator_bytes[end - 1] || (g->stops && g->stops(g, begin, end))) return;
        g->tensors[p->op_output[end - 1]].is_unread = 1;
        g->unread++;
    }
}

int tw_grow_stages(const problem *p, stage_columns *out)
{
    growth g;
    if (tw_begin_growth(&g, p, out)) g.is_reached[0] = 1;
    for (i64 begin = 0; begin < p->op_count && !out->failed; begin++) {
        if (!g.is_reached[begin]) continue; /* no path of stages and unfused ops leads to `begin` */
        if (p->op_unfused_bytes[begin] < NEVER) g.is_reached[begin + 1] = 1;
        tw_grow_stages_from(&g, begin);
    }
    tw_end_growth(&g);
    return !out->failed;
}

void tw_free_stages(stage_columns *out)
{
    vector *const columns[] = {
        &out->begin, &out->end,   &out->bytes,      &out->most_overlap,    &out->fewer_at, &out->fewer_step, &out->fewer_rows,
        &out->stage, &out->saved, &out->tile_bytes, &out->recomputed_macs, &out->tiles_at, &out->tiles,
    };
    for (size_t k = 0; k < sizeof columns / sizeof *columns; k++) free(columns[k]->at);
}

int tw_begin_growth(growth *g, const problem *p, stage_columns *out)
{
    const size_t tensors = (size_t)p->tensor_count + 1, steps = (size_t)p->op_count + 2;
    *g = (growth){.problem = p, .out = out, .kept_room = 1024, .option_room = 1024};
    memset(out, 0, sizeof *out);
    g->tensors = calloc(tensors, sizeof *g->tensors);
    g->present = calloc(tensors, sizeof *g->present);
    g->source_reads = calloc((size_t)p->op_reads.at[p->op_count] + 1, sizeof *g->source_reads);
    g->kept = calloc((size_t)g->kept_room, sizeof *g->kept);
    g->options = calloc((size_t)g->option_room, sizeof *g->options);
    g->front = calloc((size_t)(2 * p->most_tilings + 1 + p->tile_at[p->op_count]), sizeof *g->front);
    g->kept_at = calloc(steps, sizeof *g->kept_at);
    g->needed = calloc(tensors, sizeof *g->needed);
    g->is_reached = calloc(steps, sizeof *g->is_reached);
    out->failed = !(g->tensors && g->present && g->source_reads && g->kept && g->options && g->front && g->kept_at &&
                    g->needed && g->is_reached);
    push(out, &out->fewer_at, 0);
    push(out, &out->tiles_at, 0);
    return !out->failed;
}

void tw_end_growth(growth *g)
{
    void *const own[] = {g->tensors, g->present, g->source_reads, g->kept, g->options, g->front, g->kept_at, g->needed,
                         g->is_reached};
    for (size_t k = 0; k < sizeof own / sizeof *own; k++) free(own[k]);
}
