/* Which stages a network has, and with which tiles: stages.py in C, statement for statement. The Python text explains it, the
 * tests keep both equal. All numbers are 64-bit integers; steps, tensors and candidates are numbers from 0 on. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int64_t num;

#define NEVER ((num)1 << 60)

typedef struct {
    num *at;
    num count, room;
} list;

/* The windows with which tensors are read. */
typedef struct {
    const num *at, *tensor, *extent, *stride, *pad, *up, *phase;
} reads;

/* What is known of the ops and their tensors: `Tables` of stages.py. `x_at` says where the entries of each begin. */
typedef struct {
    num steps, tensors, longest, choices, floor, blocks, most_ticks;
    const num *height, *row_bytes, *bytes, *first_user, *last_user, *is_streamed, *is_handed_out; /* per tensor */
    const num *life_begin, *life_end, *is_kept;                                   /* per tensor; an end of 0: it owns no bytes */
    const num *out, *sums, *rows, *alone, *is_by_rows;                            /* per step */
    reads read;
    const num *candidate_at; /* per step the candidates that end with it */
    const num *candidate_begin, *candidate_rows, *candidate_bytes, *candidate_macs;
    reads candidate_read;
} tables;

/* The stages: `Stages` of stages.py, column by column. */
typedef struct {
    list begin, end, total, most_shared, fewer_at, fewer_step, fewer_rows; /* per span */
    list span, saved, tile, again, tiles_at, tiles;                        /* per choice of tiles in a span */
    num failed;
} stages;

typedef struct {
    num every, first, start, ring_rows, is_lead, group, is_in, is_unread;
} map;

/* `Window` of ops/window.py. */
typedef struct {
    num extent, stride, pad, up, phase;
} window;

typedef struct {
    num lead, reader;
    window of;
} wait;

typedef struct {
    num saved, tile, macs, if_read, count, before, candidate; /* before: the choice with one tile less */
} choice;

typedef struct growth {
    const tables *t;
    stages *out;
    int (*stops)(struct growth *, num begin, num end); /* whether a stage need not grow on; NULL: never */
    num emit_after; /* stages up to this step are known */
    map *maps;
    num *in, ins, unread; /* the tensors that the stage makes or takes by rows */
    wait *waits;
    num wait_count;
    choice *known, *options, *front;
    num known_count, known_room, option_room;
    num *front_at; /* per op of the stage where its front begins among the known choices */
    num *needed, *is_reached;
} growth;

static num most(num a, num b) { return a > b ? a : b; }
static num least(num a, num b) { return a < b ? a : b; }

static void put(stages *out, list *to, num value)
{
    if (to->count == to->room) {
        const num room = to->room ? 2 * to->room : 256;
        num *const at = realloc(to->at, (size_t)room * sizeof(num));
        if (!at) {
            out->failed = 1;
            return;
        }
        to->at = at;
        to->room = room;
    }
    to->at[to->count++] = value;
}

/* Rounded down, also below 0. */
static num quotient(num a, num b) { return (a - (a % b + b) % b) / b; }

static num common(num a, num b)
{
    while (b) {
        const num rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static window window_of(const reads *of, num r)
{
    return (window){of->extent[r], of->stride[r], of->pad[r], of->up[r], of->phase[r]};
}

/* Ticks that a reader waits. */
static num wait_of(window w, num ticks) { return ticks * (w.extent - 1 - w.pad) + ticks / w.up * w.phase; }

/* Rows that are kept for it when it has waited so long. */
static num rows_kept(window w, num ticks, num waited)
{
    return w.pad + 1 - quotient(w.phase - quotient(waited, ticks / w.up), w.up);
}

static void enter(growth *g, num x, num every, num first, num is_lead, num group)
{
    map *const m = &g->maps[x];
    *m = (map){every, first, first, 1, is_lead, group, 1, m->is_unread};
    g->in[g->ins++] = x;
}

/* Two groups of tensors meet: their ticks become those of one. False when they cannot. */
static int meet(growth *g, num x, window of_x, num y, window of_y)
{
    const num own = g->maps[x].every / of_x.up * of_x.stride, other = g->maps[y].every / of_y.up * of_y.stride;
    const num lead = g->maps[x].group, joined = g->maps[y].group;
    if (lead == joined) return own == other; /* two ways of different strides lead to the same rows */
    const num divisor = common(own, other);
    for (num k = 0; k < g->ins; k++) {
        map *const m = &g->maps[g->in[k]];
        if (m->group != lead && m->group != joined) continue;
        const num factor = m->group == lead ? other / divisor : own / divisor;
        m->group = lead;
        if (__builtin_mul_overflow(m->every, factor, &m->every) || __builtin_mul_overflow(m->first, factor, &m->first) ||
            __builtin_mul_overflow(m->start, factor, &m->start) || m->every > g->t->most_ticks || m->first > g->t->most_ticks)
            return 0;
    }
    return 1;
}

/* A lead runs no earlier than it is needed. */
static void put_off(growth *g, num x)
{
    map *const m = &g->maps[x];
    num first = INT64_MAX, rows = 0;
    for (const wait *w = g->waits; w < g->waits + g->wait_count; w++)
        if (w->lead == x) first = least(first, g->maps[w->reader].first - wait_of(w->of, m->every));
    for (const wait *w = g->waits; w < g->waits + g->wait_count; w++)
        if (w->lead == x) rows = most(rows, rows_kept(w->of, m->every, g->maps[w->reader].first - first));
    m->ring_rows = rows;
    m->start = first;
}

/* Ticks become so much finer that rows of an output that is larger than what it is made of can share them out; false when they
 * become too many. */
static int refine(growth *g, num begin, num end)
{
    const tables *const t = g->t;
    num up = 1;
    for (num r = begin; r < end; r++)
        if (g->maps[t->read.tensor[r]].is_in) up = up / common(up, t->read.up[r]) * t->read.up[r];
    for (num k = 0; k < g->ins && up > 1; k++) {
        map *const m = &g->maps[g->in[k]];
        num r = begin;
        while (r < end && !(g->maps[t->read.tensor[r]].is_in && g->maps[t->read.tensor[r]].group == m->group)) r++;
        if (r == end) continue;
        m->every *= up;
        m->first *= up;
        m->start *= up;
        if (m->every > t->most_ticks || m->first > t->most_ticks) return 0;
    }
    return 1;
}

/* Let the stage grow by a step; false when it cannot. */
static int grow(growth *g, num step)
{
    const tables *const t = g->t;
    const num begin = t->read.at[step], end = t->read.at[step + 1], out = t->out[step];
    num one = -1; /* the first read of what the stage has */
    if (!t->is_by_rows[step]) return 0;
    for (num r = begin; r < end; r++) {
        const num x = t->read.tensor[r];
        if (t->is_streamed[x] && !g->maps[x].is_in) enter(g, x, 1, 0, 1, x);
        if (g->maps[x].is_in && one < 0) one = r;
    }
    for (num r = begin; r < end; r++)
        if (g->maps[t->read.tensor[r]].is_in && !t->read.stride[r]) return 0;
    if (!refine(g, begin, end)) return 0;
    for (num r = one + 1; one >= 0 && r < end; r++)
        if (g->maps[t->read.tensor[r]].is_in &&
            !meet(g, t->read.tensor[one], window_of(&t->read, one), t->read.tensor[r], window_of(&t->read, r)))
            return 0;
    num first = 0, every = 1, ticks;
    for (num r = begin; r < end; r++) {
        const map *const m = &g->maps[t->read.tensor[r]];
        if (!m->is_in) continue;
        if (__builtin_mul_overflow(m->every, t->read.extent[r] - t->read.pad[r], &ticks)) return 0; /* `wait_of` is less */
        ticks = wait_of(window_of(&t->read, r), m->every);
        first = r == one ? m->first + ticks : most(first, m->first + ticks);
    }
    if (one >= 0 && __builtin_mul_overflow(g->maps[t->read.tensor[one]].every / t->read.up[one], t->read.stride[one], &every))
        return 0;
    if (every > t->most_ticks || first > t->most_ticks) return 0;
    enter(g, out, every, first, one < 0, one < 0 ? out : g->maps[t->read.tensor[one]].group);
    for (num r = begin; r < end; r++) {
        const num x = t->read.tensor[r];
        map *const m = &g->maps[x];
        if (!m->is_in || x == out) continue;
        g->unread -= m->is_unread;
        m->is_unread = 0;
        if (m->is_lead)
            g->waits[g->wait_count++] = (wait){x, out, window_of(&t->read, r)};
        else
            m->ring_rows = most(m->ring_rows, rows_kept(window_of(&t->read, r), m->every, first - m->first));
    }
    for (num r = begin; r < end; r++)
        if (g->maps[t->read.tensor[r]].is_in && g->maps[t->read.tensor[r]].is_lead && t->read.tensor[r] != out)
            put_off(g, t->read.tensor[r]);
    return 1;
}

static num grown(const tables *t, num x, num rows, num more)
{
    return (least(more, t->height[x]) - least(rows, t->height[x])) * t->row_bytes[x];
}

static num saved_by(const growth *g, num c, num end, num *if_read)
{
    const tables *const t = g->t;
    num saved = 0, tick = INT64_MIN;
    for (const num *x = &t->out[t->candidate_begin[c]]; x < &t->out[end - 1]; x++)
        saved += least(g->maps[*x].ring_rows, t->height[*x]) * t->row_bytes[*x];
    for (num r = t->candidate_read.at[c]; r < t->candidate_read.at[c + 1]; r++) {
        const map *const m = &g->maps[t->candidate_read.tensor[r]];
        if (m->is_in) tick = most(tick, m->start + wait_of(window_of(&t->candidate_read, r), m->every));
    }
    for (num r = t->candidate_read.at[c]; r < t->candidate_read.at[c + 1]; r++) {
        const map *const m = &g->maps[t->candidate_read.tensor[r]];
        if (!m->is_in) continue;
        const num rows = rows_kept(window_of(&t->candidate_read, r), m->every, tick - m->start);
        saved -= grown(t, t->candidate_read.tensor[r], m->ring_rows, most(m->ring_rows, rows));
    }
    const num out = t->out[end - 1], rows = g->maps[out].ring_rows;
    const num taller = grown(t, out, rows, rows + t->candidate_rows[c] - 1);
    *if_read = t->is_handed_out[out] ? 0 : taller;
    return saved - taller + *if_read;
}

static num cost(const choice *c) { return c->tile - c->saved; }

/* Sorted by cost, macs, tile, number of tiles; of equal ones the first stays first. */
static int by_cost(const void *left, const void *right)
{
    const choice *const a = *(const choice *const *)left, *const b = *(const choice *const *)right;
    if (cost(a) != cost(b)) return cost(a) < cost(b) ? -1 : 1;
    if (a->macs != b->macs) return a->macs < b->macs ? -1 : 1;
    if (a->tile != b->tile) return a->tile < b->tile ? -1 : 1;
    if (a->count != b->count) return a->count < b->count ? -1 : 1;
    return a < b ? -1 : 1;
}

/* Append to the front so many of the `count` options that save most and that nothing in it beats. */
static num most_saving(const choice **options, num count, choice *front, num kept, num most_kept)
{
    qsort(options, (size_t)count, sizeof *options, by_cost);
    for (num k = 0, taken = 0; k < count && taken < most_kept; k++) {
        const choice *const c = options[k];
        num f = 0;
        while (f < kept && !(front[f].saved - most(front[f].if_read - c->if_read, 0) >= c->saved && front[f].tile <= c->tile &&
                             front[f].macs <= c->macs))
            f++;
        if (f < kept) continue;
        front[kept++] = *c;
        taken++;
    }
    return kept;
}

static int offer(growth *g, num *count, choice option)
{
    if (*count == g->option_room) {
        choice *const options = realloc(g->options, (size_t)g->option_room * 2 * sizeof *options);
        if (!options) return 0;
        g->options = options;
        g->option_room *= 2;
    }
    g->options[(*count)++] = option;
    return 1;
}

/* Work out the choices of tiles of a stage that has grown up to `end`; false when memory ran out. */
static int grow_choices(growth *g, num begin, num end)
{
    const tables *const t = g->t;
    num count = 0, kept = 0;
    const num grown_by = end - begin;
    if (!t->blocks)
        for (num k = g->front_at[grown_by - 1]; k < g->front_at[grown_by]; k++) {
            choice longer = g->known[k];
            longer.saved -= longer.if_read;
            longer.if_read = 0;
            if (!offer(g, &count, longer)) return 0;
        }
    for (num c = t->candidate_at[end - 1]; c < t->candidate_at[end]; c++) {
        const num first = t->candidate_begin[c] - begin;
        if (first < 0 || (t->blocks && first > 0)) continue;
        num if_read;
        const num saved = saved_by(g, c, end, &if_read);
        if (saved <= 0 && !t->blocks) continue;
        for (num k = g->front_at[first]; k < g->front_at[first + 1]; k++) {
            const choice *const b = &g->known[k];
            const choice one = {b->saved - b->if_read + saved, most(b->tile, t->candidate_bytes[c]),
                                b->macs + t->candidate_macs[c], if_read, b->count + 1, k, c};
            if (!offer(g, &count, one)) return 0;
        }
    }
    if (t->blocks) {
        for (; kept < count; kept++) g->front[kept] = g->options[kept];
        if (grown_by == 1) g->front[kept++] = (choice){0, 0, 0, 0, 0, -1, -1};
    } else {
        const choice **const sorted = malloc(((size_t)count + 1) * sizeof *sorted);
        num has_macs = 0, without = 0;
        if (!sorted) return 0;
        for (num k = 0; k < count; k++)
            if (!g->options[k].macs) sorted[without++] = &g->options[k];
        kept = most_saving(sorted, without, g->front, 0, t->choices);
        for (num k = 0; k < count; k++)
            if (g->options[k].macs) sorted[has_macs++] = &g->options[k];
        kept = most_saving(sorted, has_macs, g->front, kept, t->choices);
        free(sorted);
        num f = 0;
        while (f < kept && g->front[f].count) f++;
        if (f == kept) g->front[kept++] = (choice){0, 0, 0, 0, 0, -1, -1};
    }
    if (g->known_count + kept > g->known_room) {
        choice *const known = realloc(g->known, (size_t)(g->known_room = 2 * g->known_room + kept) * sizeof *known);
        if (!known) return 0;
        g->known = known;
    }
    memcpy(&g->known[g->known_count], g->front, (size_t)kept * sizeof *g->front);
    g->known_count += kept;
    g->front_at[grown_by + 1] = g->known_count;
    return 1;
}

static int is_inside(const tables *t, num x, num begin, num end)
{
    return t->first_user[x] >= begin && t->last_user[x] < end;
}

/* Set the rows that are needed of each tensor that the stage makes. */
static void rows_needed(growth *g, num begin, num end)
{
    const tables *const t = g->t;
    for (num k = 0; k < g->ins; k++) g->needed[g->in[k]] = is_inside(t, g->in[k], begin, end) ? 0 : t->height[g->in[k]];
    g->needed[t->out[end - 1]] = t->rows[end - 1];
    for (num step = end - 1; step >= begin; step--)
        for (num r = t->read.at[step]; r < t->read.at[step + 1]; r++) {
            const num x = t->read.tensor[r];
            if (!g->maps[x].is_in) continue;
            const window w = window_of(&t->read, r);
            const num last = quotient((g->needed[t->out[step]] - 1) * w.stride + w.phase, w.up) - w.pad + w.extent;
            g->needed[x] = most(g->needed[x], least(t->height[x], last));
        }
}

/* Set what a span of steps needs as a stage, tiles apart; false when a streamed input has readers outside. */
static int stage_memory(growth *g, num begin, num end, num *total, num *most_shared)
{
    const tables *const t = g->t;
    num dying = 0;
    *total = t->sums[end - 1];
    rows_needed(g, begin, end);
    for (num x = 0; x < t->tensors; x++) {
        if (t->life_begin[x] >= end || t->life_end[x] <= begin || !t->life_end[x]) continue;
        if (t->is_streamed[x]) {
            if (!g->maps[x].is_in) continue;
            if (!is_inside(t, x, begin, end)) return 0;
            *total += least(g->maps[x].ring_rows, g->needed[x]) * t->row_bytes[x];
        } else if (t->life_begin[x] >= begin && t->life_end[x] <= end && !t->is_kept[x]) {
            *total += least(g->maps[x].ring_rows, g->needed[x]) * t->row_bytes[x];
        } else {
            *total += t->bytes[x];
            if (t->life_begin[x] < begin && t->life_end[x] <= end && !t->is_kept[x]) dying += t->bytes[x];
        }
    }
    *most_shared = least(dying, t->bytes[t->out[end - 1]]);
    return 1;
}

/* Write the stages of a span that need less than `below`. */
static void emit(growth *g, num begin, num end, num below)
{
    const tables *const t = g->t;
    stages *const out = g->out;
    num total, most_shared, is_new = 1;
    if (!stage_memory(g, begin, end, &total, &most_shared)) return;
    for (num k = g->front_at[end - begin]; k < g->front_at[end - begin + 1]; k++) {
        const choice *const c = &g->known[k];
        if (total - c->saved + c->tile - most_shared >= below) continue;
        if (c->count && c->macs >= 0 && total <= t->floor) continue;
        if (is_new) {
            put(out, &out->begin, begin);
            put(out, &out->end, end);
            put(out, &out->total, total);
            put(out, &out->most_shared, most_shared);
            for (num step = begin; step < end; step++)
                if (g->needed[t->out[step]] < t->rows[step]) {
                    put(out, &out->fewer_step, step);
                    put(out, &out->fewer_rows, g->needed[t->out[step]]);
                }
            put(out, &out->fewer_at, out->fewer_step.count);
            is_new = 0;
        }
        put(out, &out->span, out->begin.count - 1);
        put(out, &out->saved, c->saved);
        put(out, &out->tile, c->tile);
        put(out, &out->again, c->macs);
        for (num of = 0; of < c->count; of++) put(out, &out->tiles, 0);
        if (out->failed) return;
        num at = out->tiles.count;
        for (const choice *tiled = c; tiled->count; tiled = &g->known[tiled->before]) out->tiles.at[--at] = tiled->candidate;
        put(out, &out->tiles_at, out->tiles.count);
        g->is_reached[end] = 1;
    }
}

static void grow_from(growth *g, num begin)
{
    const tables *const t = g->t;
    num below = t->alone[begin];
    for (num k = 0; k < g->ins; k++) memset(&g->maps[g->in[k]], 0, sizeof *g->maps);
    g->ins = g->unread = g->wait_count = 0;
    g->known[0] = (choice){0, 0, 0, 0, 0, -1, -1};
    g->known_count = 1;
    g->front_at[0] = 0;
    g->front_at[1] = 1;
    for (num end = begin + 1; end <= least(t->steps, begin + t->longest) && grow(g, end - 1); end++) {
        below = most(below, t->alone[end - 1]);
        if (!grow_choices(g, begin, end)) g->out->failed = 1;
        if (g->out->failed) return;
        if (!g->unread && end > g->emit_after && (end > begin + 1 || t->alone[begin] >= NEVER)) emit(g, begin, end, below);
        if (t->sums[end - 1] || (g->stops && g->stops(g, begin, end))) return;
        g->maps[t->out[end - 1]].is_unread = 1;
        g->unread++;
    }
}

void tw_free_stages(stages *out)
{
    list *const lists[] = {&out->begin, &out->end, &out->total, &out->most_shared, &out->fewer_at, &out->fewer_step,
                           &out->fewer_rows, &out->span, &out->saved, &out->tile, &out->again, &out->tiles_at, &out->tiles};
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) free(lists[k]->at);
}

/* Make room for what grows; false when there is none. `end_growth` gives it back. */
static int begin_growth(growth *g, const tables *t, stages *out)
{
    const size_t tensors = (size_t)t->tensors + 1, steps = (size_t)t->steps + 2;
    *g = (growth){.t = t, .out = out, .known_room = 1024, .option_room = 1024};
    memset(out, 0, sizeof *out);
    g->maps = calloc(tensors, sizeof *g->maps);
    g->in = calloc(tensors, sizeof *g->in);
    g->waits = calloc((size_t)t->read.at[t->steps] + 1, sizeof *g->waits);
    g->known = calloc((size_t)g->known_room, sizeof *g->known);
    g->options = calloc((size_t)g->option_room, sizeof *g->options);
    g->front = calloc((size_t)(2 * t->choices + 1) + (size_t)t->candidate_at[t->steps], sizeof *g->front);
    g->front_at = calloc(steps, sizeof *g->front_at);
    g->needed = calloc(tensors, sizeof *g->needed);
    g->is_reached = calloc(steps, sizeof *g->is_reached);
    out->failed = !(g->maps && g->in && g->waits && g->known && g->options && g->front && g->front_at && g->needed &&
                    g->is_reached);
    put(out, &out->fewer_at, 0);
    put(out, &out->tiles_at, 0);
    return !out->failed;
}

static void end_growth(growth *g)
{
    void *const own[] = {g->maps, g->in, g->waits, g->known, g->options, g->front, g->front_at, g->needed, g->is_reached};
    for (size_t k = 0; k < sizeof own / sizeof *own; k++) free(own[k]);
}

/* Fill the lists; 0 when memory ran out. `tw_free_stages` frees them. */
int tw_stages(const tables *t, stages *out)
{
    growth g;
    if (begin_growth(&g, t, out)) g.is_reached[0] = 1;
    for (num begin = 0; begin < t->steps && !out->failed; begin++) {
        if (!g.is_reached[begin]) continue; /* what comes by rows is taken by no stage up to here */
        if (t->alone[begin] < NEVER) g.is_reached[begin + 1] = 1;
        grow_from(&g, begin);
    }
    end_growth(&g);
    return !out->failed;
}
