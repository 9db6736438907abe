/* The least bytes that the busiest step of any path needs, where only bytes and work done again are of interest: what `Space`
 * answers for all kernels alike, without a graph. Stages grow as in stages.c, from those cuts alone that the best path may come
 * to; what a stage's output shares with what dies in it is worked out as in schedule.py, of those alone on which the answer
 * depends. No op makes a map larger, no tensor is a view of another, and of the ops of a stage the first alone waits for none.
 * Stages grow as long as they may need little more than the way to their cut does; they grow on when all other ways need more. */
#include "../fuse/stages.c"

#define MORE 8 /* a stage first grows up to this part more than the way to its cut needs */
#define MOST_PARTS 16 /* in which the stages of a cut are found */

/* An op or a tile of a stage. begin, end: its steps; candidate: of a tile, else -1; rows: of an iteration; ticks: per row. */
typedef struct {
    num begin, end, candidate, rows, ticks, first, needed, iterations;
} node;

/* A way to a cut. choice: of the last stage on it, -1: an op by itself; known: whether its bytes are exact; before: bytes up to
 * this stage; part: which of the stages behind the cut are wanted next, shorter ones first. */
typedef struct {
    num bytes, again, cut, choice, before, known, part;
} way;

/* What is known of the stages that begin with a cut, in parts by their length. at: the first choice of a part and that behind its
 * last; upto: the last step of all; beyond: bytes that no longer one needs less than. */
typedef struct {
    num parts, at[MOST_PARTS][2], upto, beyond[MOST_PARTS];
} behind;

/* A growth that stops where longer stages need more than `limit`. alive: bytes of what is there before the stage. */
typedef struct {
    growth g;
    num longest_tile, limit, alive, upto, beyond;
} bounded;

typedef struct {
    const tables *t;
    const num *in_place; /* per read, whether each byte is read before the same one is written */
    stages found;
    num *exact;   /* per choice its bytes; -1: not worked out */
    num exact_room;
    num *node_of; /* per tensor the node of the stage at hand that makes it; -1: it was there before */
    node *nodes;
    way *heap;
    num ways, room;
} search;

static const reads *reads_of(const tables *t, const node *n, num *begin, num *end)
{
    const reads *const of = n->candidate < 0 ? &t->read : &t->candidate_read;
    const num at = n->candidate < 0 ? n->begin : n->candidate;
    *begin = of->at[at];
    *end = of->at[at + 1];
    return of;
}

/* Set the ticks per row of all nodes, and the rows that are needed of each; false where they cannot run in one stage. */
static int pace(search *s, num count)
{
    const tables *const t = s->t;
    num begin, end, ticks = 1, divisor = 0;
    for (num k = 0; k < count; k++) {
        node *const n = &s->nodes[k];
        const reads *const of = reads_of(t, n, &begin, &end);
        num stride = 1;
        for (num r = begin; r < end; r++) stride = most(stride, of->stride[r] / n->rows);
        ticks *= stride;
        n->ticks = n->needed = n->first = 0;
        if (ticks > t->most_ticks) return 0;
        const num x = t->out[n->end - 1];
        if (k == count - 1 || !(t->first_user[x] >= s->nodes[0].begin && t->last_user[x] < s->nodes[count - 1].end))
            n->needed = t->height[x];
    }
    s->nodes[count - 1].ticks = ticks;
    s->nodes[count - 1].needed = t->rows[s->nodes[count - 1].end - 1];
    for (num k = count - 1; k >= 0; k--) {
        node *const n = &s->nodes[k];
        const reads *const of = reads_of(t, n, &begin, &end);
        if (!n->ticks || n->needed < 1) return 0;
        n->iterations = (n->needed + n->rows - 1) / n->rows;
        divisor = common(n->ticks, divisor);
        for (num r = begin; r < end; r++) {
            const num from = s->node_of[of->tensor[r]];
            if (from < 0) continue;
            node *const source = &s->nodes[from];
            const num stride = of->stride[r] / n->rows;
            if (!stride || (source->ticks && source->ticks != n->ticks / stride)) return 0;
            source->ticks = n->ticks / stride;
            const num last = (n->needed - n->rows) * stride - of->pad[r] + of->extent[r];
            source->needed = most(source->needed, least(t->height[of->tensor[r]], last));
        }
    }
    for (num k = 0; k < count; k++) s->nodes[k].ticks /= divisor;
    return 1;
}

/* Set the first ticks of the nodes, relative to each other. */
static void time_nodes(search *s, num count)
{
    num begin, end;
    for (num k = 0; k < count; k++) {
        node *const n = &s->nodes[k];
        const reads *const of = reads_of(s->t, n, &begin, &end);
        num first = INT64_MIN;
        for (num r = begin; r < end; r++) {
            const num from = s->node_of[of->tensor[r]];
            if (from < 0) continue;
            const node *const source = &s->nodes[from];
            const num reach = of->extent[r] - 1 - of->pad[r], steps = common(of->stride[r], source->rows);
            first = most(first, source->first + source->ticks * (reach - (reach % steps + steps) % steps));
        }
        n->first = first == INT64_MIN ? 0 : first;
    }
}

/* How far below what node k reads with read r the output of the last node must begin. */
static num distance_below(const search *s, num count, num k, const reads *of, num r)
{
    const tables *const t = s->t;
    const node *const n = &s->nodes[k], *const last = &s->nodes[count - 1];
    const num step = last->end - 1, out = t->out[step], x = of->tensor[r], size = t->row_bytes[x];
    num distance = 0;
    for (num i = t->sums[step] ? last->iterations - 1 : 0; i < last->iterations; i++) {
        const num rows = least((i + 1) * last->rows, last->needed);
        const num written = t->sums[step] ? t->bytes[out] : rows * t->row_bytes[out];
        num done = i;
        if (k < count - 1) {
            const num ahead = last->first + i * last->rows * last->ticks - n->first;
            done = least(most(quotient(ahead, n->rows * n->ticks) + 1, 0), n->iterations);
        } else if (n->candidate < 0 && s->in_place[r]) {
            const num first = t->sums[step] ? t->bytes[out] : least(last->rows, last->needed) * t->row_bytes[out];
            done += first == size;
        }
        const num oldest = least(most(done * of->stride[r] - of->pad[r], 0), t->height[x]);
        if (done < n->iterations) distance = most(distance, written - oldest * size);
    }
    return distance;
}

/* Bytes of the output of a choice's stage that lie over what dies in it. */
static num shared(search *s, num c)
{
    const tables *const t = s->t;
    const stages *const f = &s->found;
    const num first = f->begin.at[f->span.at[c]], after = f->end.at[f->span.at[c]];
    num tile = f->tiles_at.at[c], count = 0;
    for (num x = 0; x < t->tensors; x++) s->node_of[x] = -1;
    for (num step = first; step < after; count++) {
        node *const n = &s->nodes[count];
        const int is_tile = tile < f->tiles_at.at[c + 1] && t->candidate_begin[f->tiles.at[tile]] == step;
        n->begin = step;
        n->candidate = is_tile ? f->tiles.at[tile++] : -1;
        n->rows = is_tile ? t->candidate_rows[n->candidate] : 1;
        if (is_tile)
            while (n->candidate >= t->candidate_at[step + 1]) step++; /* to the step that it ends with */
        n->end = ++step;
        s->node_of[t->out[n->end - 1]] = count;
    }
    if (!pace(s, count)) return 0;
    time_nodes(s, count);
    num total = 0, upto = 0, left = 0;
    const num out = t->bytes[t->out[after - 1]];
    num *const apart = s->node_of; /* no longer needed: per tensor its distance, where it dies here */
    for (num x = 0; x < t->tensors; x++) {
        const int dies = t->life_end[x] && t->life_begin[x] < first && first < t->life_end[x] && t->life_end[x] <= after &&
                         !t->is_kept[x] && !t->is_streamed[x];
        apart[x] = -1;
        for (num k = 0; dies && k < count; k++) {
            num begin, end;
            const reads *const of = reads_of(t, &s->nodes[k], &begin, &end);
            for (num r = begin; r < end; r++)
                if (of->tensor[r] == x) apart[x] = most(apart[x], distance_below(s, count, k, of, r));
        }
        left += apart[x] >= 0;
    }
    for (; left; left--) { /* as `shared_bytes` of alias/overlap.py, the nearest first */
        num nearest = -1;
        for (num x = 0; x < t->tensors; x++)
            if (apart[x] >= 0 && (nearest < 0 || apart[x] < apart[nearest] ||
                                  (apart[x] == apart[nearest] && t->bytes[x] < t->bytes[nearest])))
                nearest = x;
        upto = most(upto, least((apart[nearest] + 3) / 4 * 4, out)) + t->bytes[nearest];
        total += t->bytes[nearest];
        apart[nearest] = -1;
    }
    return total + out - most(upto, out);
}

static int is_before(const way *a, const way *b)
{
    if (a->bytes != b->bytes) return a->bytes < b->bytes;
    return a->again < b->again;
}

static int push(search *s, way w)
{
    if (s->ways == s->room) {
        way *const heap = realloc(s->heap, (size_t)s->room * 2 * sizeof *heap);
        if (!heap) return 0;
        s->heap = heap;
        s->room *= 2;
    }
    num at = s->ways++;
    for (; at && is_before(&w, &s->heap[(at - 1) / 2]); at = (at - 1) / 2) s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = w;
    return 1;
}

static way pop(search *s)
{
    const way top = s->heap[0], last = s->heap[--s->ways];
    num at = 0;
    for (num under = 1; under < s->ways; under = 2 * at + 1) {
        under += under + 1 < s->ways && is_before(&s->heap[under + 1], &s->heap[under]);
        if (!is_before(&s->heap[under], &last)) break;
        s->heap[at] = s->heap[under];
        at = under;
    }
    s->heap[at] = last;
    return top;
}

/* The bytes that no stage needs less than that begins at a cut and goes on behind `end`, besides what is there before it: its
 * rings so far, which only grow, but for what tiles save: those so far, and one that has not ended yet all rings inside it. All
 * rows of all maps are needed. */
static num least_beyond(const growth *g, num longest_tile, num begin, num end)
{
    const tables *const t = g->t;
    num bytes = 0, less = NEVER, inside = 0;
    for (num k = 0; k < g->ins; k++) bytes += least(g->maps[g->in[k]].ring_rows, t->height[g->in[k]]) * t->row_bytes[g->in[k]];
    for (num from = end; from >= most(begin, end - longest_tile + 1); from--) {
        if (from < end) inside += least(g->maps[t->out[from]].ring_rows, t->height[t->out[from]]) * t->row_bytes[t->out[from]];
        for (num k = g->front_at[from - begin]; k < g->front_at[from - begin + 1]; k++)
            less = least(less, cost(&g->known[k]) + g->known[k].if_read - inside);
    }
    return bytes + less;
}

static int is_beyond(growth *g, num begin, num end)
{
    bounded *const b = (bounded *)g;
    if (end == g->t->steps) return 1;
    b->upto = end;
    b->beyond = b->alive + least_beyond(g, b->longest_tile, begin, end);
    return b->beyond > b->limit;
}

/* Find the next part of the stages that begin with a cut; false when memory ran out. */
static int look(search *s, bounded *b, behind *of, num cut)
{
    stages *const f = &s->found;
    const tables *const t = s->t;
    const num begin = f->span.count;
    b->upto = t->steps;
    b->beyond = NEVER;
    b->alive = 0;
    for (num x = 0; x < t->tensors; x++)
        if (t->life_begin[x] < cut && t->life_end[x] > cut && !t->is_streamed[x]) b->alive += t->bytes[x];
    b->g.emit_after = of->upto;
    grow_from(&b->g, cut);
    if (f->failed) return 0;
    of->at[of->parts][0] = begin;
    of->at[of->parts][1] = f->span.count;
    of->beyond[of->parts++] = b->beyond > b->limit ? b->beyond : NEVER;
    of->upto = b->upto;
    if (f->span.count > s->exact_room) {
        num *const exact = realloc(s->exact, (size_t)f->span.count * 2 * sizeof *exact);
        if (!exact) return 0;
        s->exact = exact;
        s->exact_room = f->span.count * 2;
    }
    for (num c = begin; c < f->span.count; c++) s->exact[c] = -1;
    return 1;
}

/* Whether all rows of all maps that come by rows are read, so that a stage keeps no fewer when it grows. */
static int needs_all_rows(const tables *t)
{
    for (num step = 0; step < t->steps; step++)
        for (num r = t->read.at[step]; r < t->read.at[step + 1]; r++)
            if ((t->rows[step] - 1) * t->read.stride[r] - t->read.pad[r] + t->read.extent[r] < t->height[t->read.tensor[r]])
                return 0;
    return 1;
}

/* The least bytes of a path with at most `budget` multiply-accumulates done again; NEVER where there is none, -1 when memory ran
 * out. */
num tw_least_bytes(const tables *t, const num *in_place, num budget, num longest_tile)
{
    search s = {.t = t, .in_place = in_place, .room = 1024, .exact_room = 1024};
    bounded b;
    num answer = -1, less = 0; /* what tiles that leave out rows may do less, at most */
    const size_t steps = (size_t)t->steps;
    num *const worst = calloc(steps + 1, sizeof *worst);             /* per cut, what the ops after it need one by one */
    num *const least_again = calloc(steps + 1, sizeof *least_again); /* per cut, of the ways to it so far */
    behind *const from = calloc(steps + 1, sizeof *from);            /* per cut */
    const int is_grown = begin_growth(&b.g, t, &s.found), is_bounded = needs_all_rows(t);
    s.exact = calloc((size_t)s.exact_room, sizeof *s.exact);
    s.node_of = calloc((size_t)t->tensors + 1, sizeof *s.node_of);
    s.nodes = calloc(steps + 1, sizeof *s.nodes);
    s.heap = calloc((size_t)s.room, sizeof *s.heap);
    if (!is_grown || !worst || !least_again || !from || !s.exact || !s.node_of || !s.nodes || !s.heap) goto end;
    for (num step = t->steps - 1; step >= 0; step--) worst[step] = most(worst[step + 1], t->alone[step]);
    for (num step = 0; step < t->steps; step++) {
        num of_step = 0;
        for (num c = t->candidate_at[step]; c < t->candidate_at[step + 1]; c++) of_step = least(of_step, t->candidate_macs[c]);
        less -= of_step;
    }
    for (num cut = 0; cut <= t->steps; cut++) {
        least_again[cut] = NEVER;
    }
    b.g.stops = is_beyond;
    b.longest_tile = longest_tile;
    s.heap[s.ways++] = (way){0, 0, 0, -1, 0, 1, 0};
    answer = NEVER;
    while (s.ways) {
        way w = pop(&s);
        if (w.again >= least_again[w.cut] && !w.part) continue; /* ways come by rising bytes */
        if (!w.known) {
            num *const exact = &s.exact[w.choice];
            if (*exact < 0) {
                const num span = s.found.span.at[w.choice];
                *exact = s.found.total.at[span] - s.found.saved.at[w.choice] + s.found.tile.at[w.choice] - shared(&s, w.choice);
            }
            w.bytes = most(w.before, *exact);
            w.known = 1;
            if (!push(&s, w)) goto failed;
            continue;
        }
        behind *const of = &from[w.cut];
        if (!w.part) {
            if (worst[w.cut] <= w.bytes && w.again <= budget) {
                answer = w.bytes;
                break;
            }
            least_again[w.cut] = w.again;
            if (t->alone[w.cut] < NEVER &&
                !push(&s, (way){most(w.bytes, t->alone[w.cut]), w.again, w.cut + 1, -1, w.bytes, 1, 0}))
                goto failed;
        }
        if (w.part == of->parts) {
            b.limit = !is_bounded || w.part == MOST_PARTS - 1 ? NEVER : w.part ? 2 * w.bytes : w.bytes + w.bytes / MORE;
            if (!look(&s, &b, of, w.cut)) goto failed;
        }
        if (of->beyond[w.part] < NEVER &&
            !push(&s, (way){most(w.bytes, of->beyond[w.part]), w.again, w.cut, -1, w.before, 1, w.part + 1}))
            goto failed;
        for (num c = of->at[w.part][0]; c < of->at[w.part][1]; c++) {
            const num span = s.found.span.at[c], again = w.again + s.found.again.at[c], cut = s.found.end.at[span];
            const num low = s.found.total.at[span] - s.found.saved.at[c] + s.found.tile.at[c] - s.found.most_shared.at[span];
            const num bytes = most(w.bytes, s.exact[c] < 0 ? low : s.exact[c]);
            if (again - less > budget || again >= least_again[cut]) continue;
            if (!push(&s, (way){bytes, again, cut, c, w.bytes, s.exact[c] >= 0, 0})) goto failed;
        }
    }
    goto end;
failed:
    answer = -1;
end:
    if (is_grown) end_growth(&b.g);
    tw_free_stages(&s.found);
    free(worst);
    free(least_again);
    free(from);
    free(s.exact);
    free(s.node_of);
    free(s.nodes);
    free(s.heap);
    return answer;
}
