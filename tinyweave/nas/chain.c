/* The least arena of a chain of ops on square maps, with sums over skips, from its figures alone: the tables of its steps and of
 * their tiles, as planning/fuse/possible.py and stages.py make them of a graph, and the search over them. */
#include "../planning/trade/least_bytes.c"

/* A step: `Numbers of a step` in ram_model.py. */
typedef struct {
    num is_by_rows, sums, side, c_in, side_out, c_out, kernel, stride, pad, back, forth, macs, distance, is_in_place, is_map;
} step_facts;

#define HEIGHTS 4 /* of tiles */
#define MOST_TILED 8

typedef struct {
    num choices, most_ticks, longest, longest_tile, budget, is_streamed, heights[HEIGHTS];
} question;

/* Columns of the tables, each with room for all that a chain of so many steps can have. */
typedef struct {
    num *memory, *at;
} room_for;

static num *column(room_for *r, num count)
{
    num *const begin = r->at;
    r->at += count;
    return begin;
}

typedef struct {
    num *at, *tensor, *extent, *stride, *pad, *up, *phase;
} columns;

static columns read_columns(room_for *r, num ats, num count)
{
    return (columns){column(r, ats), column(r, count), column(r, count), column(r, count),
                     column(r, count), column(r, count), column(r, count)};
}

static reads as_reads(const columns *c) { return (reads){c->at, c->tensor, c->extent, c->stride, c->pad, c->up, c->phase}; }

static void add_read(columns *c, num *count, num tensor, window w)
{
    c->tensor[*count] = tensor;
    c->extent[*count] = w.extent;
    c->stride[*count] = w.stride;
    c->pad[*count] = w.pad;
    c->up[*count] = 1;
    c->phase[(*count)++] = 0;
}

static window through(window outer, const step_facts *f)
{
    return (window){(outer.extent - 1) * f->stride + f->kernel, outer.stride * f->stride, outer.pad * f->stride + f->pad, 1, 0};
}

/* What so many rows of the output of steps that run together read of what others make, their input first; 0 where they cannot
 * run so, else how many reads. */
static num joined(const step_facts *f, num begin, num end, num rows, num *tensor, window *read)
{
    window own = {rows, rows, 0, 1, 0}, skip = own; /* skip: of what the add reads besides, which `skip_of` makes */
    num skip_of = -1;
    for (num k = end - 1; k >= begin; k--) {
        if (!f[k].is_by_rows || f[k].sums) return 0;
        if (k < end - 1 && f[k + 1].forth && k + 1 + f[k + 1].forth >= end) return 0; /* what it makes is read elsewhere too */
        if (f[k].back) {
            skip = through(own, &f[k]);
            skip_of = k - f[k].back;
        }
        own = through(own, &f[k]);
        if (k == skip_of) skip_of = -1; /* the way through the block reads all that the skip does */
    }
    /* in the order in which `joined` of access.py meets them */
    const num has_skip = skip_of >= 0;
    tensor[0] = has_skip ? skip_of : begin;
    read[0] = has_skip ? skip : own;
    tensor[1] = begin;
    read[1] = own;
    return 1 + has_skip;
}

/* Spans of rows or columns of a step's output, one per iteration. */
typedef struct {
    num *begin, *end;
} spans;

static void read_by(const step_facts *f, spans of, num count, spans to)
{
    for (num i = 0; i < count; i++) {
        const num first = least(most(of.begin[i] * f->stride - f->pad, 0), f->side);
        num after = most(least((of.end[i] - 1) * f->stride - f->pad + f->kernel, f->side), first);
        if (of.begin[i] >= of.end[i]) after = first;
        to.begin[i] = first;
        to.end[i] = after;
    }
}

/* Set, for the steps from `begin` up to `end` that run together for `size` rows of the last one's output, or `size` columns of
 * which those that are there stay, the most that is there at a time of what each makes; with `again`, the multiply-accumulates
 * that each does again. upto: per step the taps inside the map of the windows before each row. */
static void parts(const step_facts *f, num begin, num end, num size, spans *by_step, num *const *upto, num *widest, num *again)
{
    const num side = f[end - 1].side_out, count = (side + size - 1) / size;
    for (num i = 0; i < count; i++) {
        by_step[end - 1 - begin].begin[i] = i * size;
        by_step[end - 1 - begin].end[i] = least((i + 1) * size, side);
    }
    for (num k = end - 2; k >= begin; k--) {
        const spans own = by_step[k - begin];
        read_by(&f[k + 1], by_step[k + 1 - begin], count, own); /* a sum over a skip reads no more than its block does */
        num there = own.begin[0], done = 0;
        widest[k - begin] = 0;
        for (num i = 0; i < count; i++) {
            if (again) {
                done += upto[k][own.end[i]] - upto[k][own.begin[i]];
                widest[k - begin] = most(widest[k - begin], own.end[i] - own.begin[i]);
            } else {
                const num stop = i ? most(there, own.end[i]) : own.end[0];
                widest[k - begin] = most(widest[k - begin], stop - own.begin[i]);
                own.begin[i] = most(own.begin[i], there);
                own.end[i] = there = stop;
            }
        }
        if (again) again[k - begin] = f[k].macs ? f[k].macs * done / upto[k][f[k].side_out] - f[k].macs : 0;
    }
}

/* Whether there are tiles of a height: without work done again, besides a row only all of a map. */
static int is_tried(const question *q, num h, num rows)
{
    return h == 0 || q->budget || (q->heights[h] / 2 < rows && rows <= q->heights[h]);
}

/* The tiles that end with a step, as `tile_candidates` of stages.py has them. */
static void add_candidates(const question *q, const step_facts *f, num end, num macs_limit, spans *by_step, num *const *upto,
                           num *const *to, columns *read, num *count, num *read_count)
{
    num tensor[2], begin = end - 1, rows_there[HEIGHTS][MOST_TILED], again[HEIGHTS][MOST_TILED], cols_there[MOST_TILED];
    window window_of_read[2];
    while (begin > most(end - q->longest_tile, 0) && joined(f, begin - 1, end, 1, tensor, window_of_read)) begin--;
    const num first = begin;
    if (first > end - 2) return;
    parts(f, first, end, 1, by_step, upto, cols_there, NULL);
    num heights = 1;
    parts(f, first, end, q->heights[0], by_step, upto, rows_there[0], again[0]);
    for (num k = 0; k < end - 1 - first; k++)
        if (again[0][k] > 0) heights = HEIGHTS;
    for (num h = 1; h < heights; h++)
        if (is_tried(q, h, f[end - 1].side_out)) parts(f, first, end, q->heights[h], by_step, upto, rows_there[h], again[h]);
    for (begin = end - 2; begin >= first; begin--) {
        num least_macs = INT64_MAX;
        for (num h = 0; h < heights; h++) {
            if (!is_tried(q, h, f[end - 1].side_out)) continue;
            num macs = 0, bytes = 0;
            for (num k = begin - first; k < end - 1 - first; k++) {
                macs += again[h][k];
                bytes += (rows_there[h][k] * cols_there[k] * f[first + k].c_out + 3) / 4 * 4;
            }
            if (macs >= least_macs) break;
            least_macs = macs;
            if (macs > macs_limit) continue;
            to[0][*count] = begin;
            to[1][*count] = q->heights[h];
            to[2][*count] = bytes;
            to[3][*count] = macs;
            read->at[(*count)++] = *read_count;
            const num made = joined(f, begin, end, q->heights[h], tensor, window_of_read);
            for (num r = 0; r < made; r++) add_read(read, read_count, tensor[r], window_of_read[r]);
        }
    }
}

/* Bytes of a step by itself, but for skips that only pass by. */
static num alone_of(const step_facts *f)
{
    const num read = f->side * f->side * f->c_in, written = f->side_out * f->side_out * f->c_out;
    num upto = 0, dying = 0;
    if (f->back) upto = dying = written; /* the skip, over which a sum may lie */
    if (!f->forth) {
        upto = most(upto, least((f->distance + 3) / 4 * 4, written)) + read;
        dying += read;
    }
    return read + written * (f->back ? 2 : 1) - (dying + written - most(upto, written));
}

/* The least bytes that the best plan of such a chain needs; -1 when memory ran out. */
num tw_chain_bytes(const question *q, const step_facts *f, num steps)
{
    const num candidates = steps * q->longest_tile * HEIGHTS;
    num rows = 0, macs = 0, answer = -1, most_rows = 0;
    for (num k = 0; k < steps; k++) {
        rows += f[k].side_out + 1;
        macs += f[k].macs;
        most_rows = most(most_rows, f[k].side_out);
    }
    const num room = 32 * (steps + 2) + 20 * candidates + rows + 2 * MOST_TILED * (most_rows + 1);
    room_for r = {malloc((size_t)room * sizeof(num)), NULL};
    num **const upto = malloc((size_t)(steps + 1) * sizeof *upto);
    r.at = r.memory;
    if (!r.memory || !upto) goto end;
    spans by_step[MOST_TILED];
    for (num k = 0; k < MOST_TILED; k++) by_step[k] = (spans){column(&r, most_rows + 1), column(&r, most_rows + 1)};
    num *const height = column(&r, steps + 1), *const row_bytes = column(&r, steps + 1), *const bytes = column(&r, steps + 1);
    num *const first_user = column(&r, steps + 1), *const last_user = column(&r, steps + 1);
    num *const none = column(&r, steps + 1), *const is_streamed = column(&r, steps + 1), *const is_kept = column(&r, steps + 1);
    num *const life_begin = column(&r, steps + 1), *const life_end = column(&r, steps + 1), *const out = column(&r, steps);
    num *const sums = column(&r, steps), *const rows_of = column(&r, steps), *const alone = column(&r, steps);
    num *const is_by_rows = column(&r, steps), *const in_place = column(&r, 2 * steps);
    columns read = read_columns(&r, steps + 1, 2 * steps);
    num read_count = 0, count = 0, tile_read_count = 0;
    for (num k = 0; k <= steps; k++) {
        const step_facts *const made_by = k ? &f[k - 1] : NULL;
        const num side = k ? made_by->side_out : f->side, channels = k ? made_by->c_out : f->c_in;
        const int is_map = !k || made_by->is_map;
        const num skip = k < steps ? f[k].forth : 0;
        height[k] = is_map ? side : 1;
        row_bytes[k] = is_map ? side * channels : 0;
        bytes[k] = side * side * channels;
        first_user[k] = k < steps ? k : NEVER;
        last_user[k] = k < steps ? k + skip : NEVER;
        none[k] = 0;
        is_streamed[k] = !k && q->is_streamed;
        is_kept[k] = k == steps;
        life_begin[k] = k || q->is_streamed ? most(k - 1, 0) : -1;
        life_end[k] = k < steps ? k + skip + 1 : steps;
    }
    for (num k = 0; k < steps; k++) {
        const window own = {f[k].kernel, f[k].stride, f[k].pad, 1, 0}, sum = {1, 1, 0, 1, 0};
        out[k] = k + 1;
        sums[k] = f[k].sums;
        rows_of[k] = f[k].sums ? f[k].side : f[k].is_map ? f[k].side_out : 1;
        is_by_rows[k] = f[k].is_by_rows;
        read.at[k] = read_count;
        in_place[read_count] = in_place[read_count + 1] = f[k].is_in_place;
        if (f[k].is_by_rows && f[k].back) add_read(&read, &read_count, k - f[k].back, sum);
        if (f[k].is_by_rows) add_read(&read, &read_count, k, own);
        alone[k] = !k && q->is_streamed ? NEVER : alone_of(&f[k]);
        upto[k] = column(&r, f[k].side_out + 1);
        upto[k][0] = 0;
        for (num row = 0; row < f[k].side_out; row++) {
            const num at = row * f[k].stride - f[k].pad;
            upto[k][row + 1] = upto[k][row] + most(least(f[k].side, at + f[k].kernel) - most(0, at), 0);
        }
    }
    read.at[steps] = read_count;
    for (num k = 0; k < steps; k++)
        for (num step = k + 1; step < k + f[k].forth; step++)
            if (alone[step] < NEVER) alone[step] += bytes[k];
    num *const candidate_at = column(&r, steps + 1);
    num *const to[4] = {column(&r, candidates), column(&r, candidates), column(&r, candidates), column(&r, candidates)};
    columns tile_read = read_columns(&r, candidates + 1, 2 * candidates);
    for (num end = 1; end <= steps; end++) {
        candidate_at[end - 1] = count;
        add_candidates(q, f, end, q->budget ? most(q->budget, macs) : 0, by_step, upto, to, &tile_read, &count, &tile_read_count);
    }
    candidate_at[steps] = count;
    tile_read.at[count] = tile_read_count;
    const tables t = {
        .steps = steps, .tensors = steps + 1, .longest = q->longest, .choices = q->choices, .floor = -1, .blocks = 0,
        .most_ticks = q->most_ticks, .height = height, .row_bytes = row_bytes, .bytes = bytes, .first_user = first_user,
        .last_user = last_user, .is_streamed = is_streamed, .is_handed_out = none, .life_begin = life_begin,
        .life_end = life_end, .is_kept = is_kept, .out = out, .sums = sums, .rows = rows_of, .alone = alone,
        .is_by_rows = is_by_rows, .read = as_reads(&read), .candidate_at = candidate_at, .candidate_begin = to[0],
        .candidate_rows = to[1], .candidate_bytes = to[2], .candidate_macs = to[3], .candidate_read = as_reads(&tile_read),
    };
    answer = tw_least_bytes(&t, in_place, q->budget, q->longest_tile);
end:
    free(r.memory);
    free(upto);
    return answer;
}
