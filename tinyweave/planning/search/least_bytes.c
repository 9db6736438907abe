/* Best-first search for the path of stages with the least peak RAM.
 *
 * A path is a sequence of stages and unfused ops up to a cut, a position between two ops. A heap holds paths by their bytes.
 * The best one is extended first, so the first path to the last cut is the answer. Two costs are deferred: the exact overlap of a
 * stage is computed only when its path is the best one, and the stages behind a cut are grown in parts of rising length, each only
 * when all other paths need more bytes. `s.stages` holds all stages grown so far; parts_of_cut says which tilings belong to which cut. */
#include "least_bytes.h"

#include <stdlib.h>

#define FIRST_PART 8  /* the first part: stages that need at most 1/8 more bytes than the path to their cut */
#define MOST_PARTS 16 /* of the stages behind a cut */

/* The stages that begin at a cut, in parts by rising length. */
typedef struct {
    i64 parts;
    i64 tilings[MOST_PARTS][2]; /* each part's tilings [begin, end) in `stages` */
    i64 end;                    /* the last step of all stages grown so far */
    i64 longer[MOST_PARTS];     /* lower bound on the bytes of longer stages than the part's; NEVER: there are none */
} parts_of_cut;

/* A path up to a cut, or to the beginning of a part of the stages behind it. */
typedef struct {
    i64 bytes; /* of its largest stage, or a lower bound */
    i64 recomputed_macs;
    i64 cut;          /* steps before it are on the path */
    i64 tiling;       /* of its last stage; -1: an unfused op */
    i64 before;       /* bytes without the last stage */
    i64 is_exact;     /* whether `bytes` counts the last stage's exact overlap */
    i64 part;         /* the part of the stages behind the cut to extend it with */
} path;

/* A growth that stops once longer stages need more than `limit` bytes. */
typedef struct {
    growth growth; /* the first member, so that a pointer to it is one to the whole */
    i64 longest_tile, limit;
    i64 alive;        /* bytes of the tensors that exist before the stage and are used after its first cut */
    i64 end, longer;  /* where it stopped, and the lower bound for longer stages */
} bounded_growth;

typedef struct {
    const problem *problem;
    stage_columns stages; /* grown so far */
    i64 *exact;           /* per tiling of these, its bytes; -1: not computed yet */
    i64 exact_room;
    overlap_space overlap;
    path *heap; /* binary heap, the best path first */
    i64 count, room;
} search;

static int is_better(const path *a, const path *b)
{
    if (a->bytes != b->bytes) return a->bytes < b->bytes;
    return a->recomputed_macs < b->recomputed_macs;
}

/* Add a path; 0 if there is not enough memory. */
static int push(search *s, path added)
{
    if (s->count == s->room) {
        path *const heap = realloc(s->heap, (size_t)s->room * 2 * sizeof *heap);
        if (!heap) return 0;
        s->heap = heap;
        s->room *= 2;
    }
    i64 at = s->count++;
    for (; at && is_better(&added, &s->heap[(at - 1) / 2]); at = (at - 1) / 2) s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = added;
    return 1;
}

/* Remove and return the best path. */
static path pop(search *s)
{
    const path top = s->heap[0], last = s->heap[--s->count];
    i64 at = 0;
    for (i64 child = 1; child < s->count; child = 2 * at + 1) {
        child += child + 1 < s->count && is_better(&s->heap[child + 1], &s->heap[child]);
        if (!is_better(&s->heap[child], &last)) break;
        s->heap[at] = s->heap[child];
        at = child;
    }
    s->heap[at] = last;
    return top;
}

static i64 line_buffer_bytes(const growth *g, i64 x)
{
    return minimum(g->tensors[x].buffer_rows, g->problem->tensor_rows[x]) * g->problem->tensor_row_bytes[x];
}

/* Lower bound on the bytes of stages that begin like this one and are longer, apart from tensors alive before it.
 *
 * Line buffers only grow, but tiles remove some: those chosen so far, and a tile that has not ended yet all inside it. */
static i64 longer_stage_bytes(const growth *g, i64 longest_tile, i64 begin, i64 end)
{
    i64 bytes = 0, least_net = NEVER, inside = 0;
    for (i64 k = 0; k < g->present_count; k++) bytes += line_buffer_bytes(g, g->present[k]);
    for (i64 first = end; first >= maximum(begin, end - longest_tile + 1); first--) {
        if (first < end) inside += line_buffer_bytes(g, g->problem->op_output[first]);
        for (i64 k = g->kept_at[first - begin]; k < g->kept_at[first - begin + 1]; k++)
            least_net = minimum(least_net, net_bytes(&g->kept[k]) + g->kept[k].output_buffer - inside);
    }
    return bytes + least_net;
}

/* `stops` of a bounded growth. */
static int is_beyond_limit(growth *g, i64 begin, i64 end)
{
    bounded_growth *const b = (bounded_growth *)g;
    if (end == g->problem->op_count) return 1;
    b->end = end;
    b->longer = b->alive + longer_stage_bytes(g, b->longest_tile, begin, end);
    return b->longer > b->limit;
}

/* Grow the next part of the stages behind a cut; 0 if there is not enough memory. */
static int grow_part(search *s, bounded_growth *b, parts_of_cut *parts, i64 cut)
{
    const problem *const p = s->problem;
    const i64 begin = s->stages.stage.count;
    b->end = p->op_count;
    b->longer = NEVER;
    b->alive = 0;
    for (i64 x = 0; x < p->tensor_count; x++)
        if (p->tensor_born[x] < cut && p->tensor_dies[x] > cut && !p->tensor_is_streamed_input[x]) b->alive += p->tensor_bytes[x];
    b->growth.emit_after = parts->end;
    tw_grow_stages_from(&b->growth, cut);
    if (s->stages.failed) return 0;
    const i64 end = s->stages.stage.count;
    parts->tilings[parts->parts][0] = begin;
    parts->tilings[parts->parts][1] = end;
    parts->longer[parts->parts++] = b->longer > b->limit ? b->longer : NEVER;
    parts->end = b->end;
    if (end > s->exact_room) {
        i64 *const exact = realloc(s->exact, (size_t)end * 2 * sizeof *exact);
        if (!exact) return 0;
        s->exact = exact;
        s->exact_room = end * 2;
    }
    for (i64 tiling = begin; tiling < end; tiling++) s->exact[tiling] = -1;
    return 1;
}

/* Bytes of a stage with a tiling, before its output reuses memory. */
static i64 tiled_bytes(const search *s, i64 tiling)
{
    const stage_columns *const f = &s->stages;
    return f->bytes.at[f->stage.at[tiling]] - f->saved.at[tiling] + f->tile_bytes.at[tiling];
}

/* Whether all rows of all tensors that ops read by rows are read: then line buffers never shrink when a stage grows. */
static int needs_all_rows(const problem *p)
{
    const row_reads *const reads = &p->op_reads;
    for (i64 step = 0; step < p->op_count; step++)
        for (i64 r = reads->at[step]; r < reads->at[step + 1]; r++) {
            const i64 last = (p->op_rows[step] - 1) * reads->stride[r] - reads->pad[r] + reads->extent[r];
            if (last < p->tensor_rows[reads->tensor[r]]) return 0;
        }
    return 1;
}

/* Upper bound on the multiply-accumulates that tiles can save by skipping unread rows. */
static i64 most_skipped_macs(const problem *p)
{
    i64 total = 0;
    for (i64 step = 0; step < p->op_count; step++) {
        i64 fewest = 0;
        for (i64 k = p->tile_at[step]; k < p->tile_at[step + 1]; k++) fewest = minimum(fewest, p->tile_recomputed_macs[k]);
        total -= fewest;
    }
    return total;
}

i64 tw_least_bytes(const problem *p, const i64 *is_in_place, i64 mac_budget, i64 longest_tile)
{
    const size_t cuts = (size_t)p->op_count + 1;
    search s = {.problem = p, .room = 1024, .exact_room = 1024, .overlap = {.problem = p, .is_in_place = is_in_place}};
    bounded_growth b;
    i64 answer = -1;
    const i64 skipped_macs = most_skipped_macs(p);
    i64 *const unfused_rest = calloc(cuts, sizeof *unfused_rest); /* per cut, bytes if all ops behind it run unfused */
    i64 *const least_macs = calloc(cuts, sizeof *least_macs);     /* per cut, recomputed by the paths to it so far */
    parts_of_cut *const parts = calloc(cuts, sizeof *parts);
    const int has_growth = tw_begin_growth(&b.growth, p, &s.stages), is_bounded = needs_all_rows(p);
    s.exact = calloc((size_t)s.exact_room, sizeof *s.exact);
    s.overlap.node_of = calloc((size_t)p->tensor_count + 1, sizeof *s.overlap.node_of);
    s.overlap.nodes = calloc(cuts, sizeof *s.overlap.nodes);
    s.heap = calloc((size_t)s.room, sizeof *s.heap);
    if (!has_growth || !unfused_rest || !least_macs || !parts || !s.exact || !s.overlap.node_of || !s.overlap.nodes || !s.heap)
        goto end;
    for (i64 step = p->op_count - 1; step >= 0; step--)
        unfused_rest[step] = maximum(unfused_rest[step + 1], p->op_unfused_bytes[step]);
    for (i64 cut = 0; cut <= p->op_count; cut++) least_macs[cut] = NEVER;
    b.growth.stops = is_beyond_limit;
    b.longest_tile = longest_tile;
    s.heap[s.count++] = (path){.tiling = -1, .is_exact = 1};
    answer = NEVER;
    while (s.count) {
        path best = pop(&s);
        if (best.recomputed_macs >= least_macs[best.cut] && !best.part) continue; /* an earlier path is as good */
        if (!best.is_exact) {
            i64 *const exact = &s.exact[best.tiling];
            if (*exact < 0) *exact = tiled_bytes(&s, best.tiling) - tw_stage_overlap(&s.overlap, &s.stages, best.tiling);
            best.bytes = maximum(best.before, *exact);
            best.is_exact = 1;
            if (!push(&s, best)) goto failed;
            continue;
        }
        parts_of_cut *const of_cut = &parts[best.cut];
        if (!best.part) {
            if (unfused_rest[best.cut] <= best.bytes && best.recomputed_macs <= mac_budget) {
                answer = best.bytes;
                break;
            }
            least_macs[best.cut] = best.recomputed_macs;
            if (p->op_unfused_bytes[best.cut] < NEVER) {
                path unfused = {.cut = best.cut + 1, .tiling = -1, .before = best.bytes, .is_exact = 1};
                unfused.bytes = maximum(best.bytes, p->op_unfused_bytes[best.cut]);
                unfused.recomputed_macs = best.recomputed_macs;
                if (!push(&s, unfused)) goto failed;
            }
        }
        if (best.part == of_cut->parts) {
            b.limit = best.part ? 2 * best.bytes : best.bytes + best.bytes / FIRST_PART;
            if (!is_bounded || best.part == MOST_PARTS - 1) b.limit = NEVER;
            if (!grow_part(&s, &b, of_cut, best.cut)) goto failed;
        }
        if (of_cut->longer[best.part] < NEVER) {
            path longer = best;
            longer.bytes = maximum(best.bytes, of_cut->longer[best.part]);
            longer.tiling = -1;
            longer.part++;
            if (!push(&s, longer)) goto failed;
        }
        for (i64 tiling = of_cut->tilings[best.part][0]; tiling < of_cut->tilings[best.part][1]; tiling++) {
            const i64 stage = s.stages.stage.at[tiling], cut = s.stages.end.at[stage];
            const i64 macs = best.recomputed_macs + s.stages.recomputed_macs.at[tiling];
            if (macs - skipped_macs > mac_budget || macs >= least_macs[cut]) continue;
            const int is_exact = s.exact[tiling] >= 0;
            const i64 bytes = is_exact ? s.exact[tiling] : tiled_bytes(&s, tiling) - s.stages.most_overlap.at[stage];
            const path extended = {.bytes = maximum(best.bytes, bytes), .recomputed_macs = macs, .cut = cut, .tiling = tiling,
                                   .before = best.bytes, .is_exact = is_exact};
            if (!push(&s, extended)) goto failed;
        }
    }
    goto end;
failed:
    answer = -1;
end:
    tw_end_growth(&b.growth);
    tw_free_stages(&s.stages);
    free(unfused_rest);
    free(least_macs);
    free(parts);
    free(s.exact);
    free(s.overlap.node_of);
    free(s.overlap.nodes);
    free(s.heap);
    return answer;
}
