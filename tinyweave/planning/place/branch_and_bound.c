/* The search of branch_and_bound.py in C, statement for statement: the Python text explains it, the tests keep both equal.
 * All tables are of 64-bit integers. Returns 1 found (`offsets` filled), 0 impossible, -1 out of tries, -2 out of memory. */
#include <stdint.h>
#include <stdlib.h>

typedef int64_t num;

typedef struct {
    const num *size, *align, *first, *end;       /* per buffer; its sections are [first, end) */
    const num *near_at, *near, *gap;             /* buffer x: near[near_at[x]] up to near_at[x + 1], and the gap from x to each */
    const num *weight_at, *weight;               /* buffer x in section s: weight[weight_at[x] + s - first[x]] */
    const num *unranked;
    num reorder;
    num capacity, tries, beyond;
    num *offsets, *lowest, *rest, *crossing, *floor, *placed, *total, *standing;
    num *changed, *before;                       /* what placing has raised: buffer, its lowest before */
    num changes;
} search;

static num most(num a, num b) { return a > b ? a : b; }
static num least(num a, num b) { return a < b ? a : b; }

static void rank(search *z, num *part, num count)
{
    for (num k = 0; k < count; k++) {
        const num x = part[k];
        num total = INT64_MIN, j = k;
        for (num s = z->first[x]; s < z->end[x]; s++) total = most(total, z->rest[s]);
        z->total[x] = total;
        for (; j > 0; j--) {
            const num y = part[j - 1];
            if (z->total[y] > total || (z->total[y] == total && z->standing[y] < z->standing[x])) break;
            part[j] = y;
        }
        part[j] = x;
    }
}

/* Place x at its lowest offset; true when some section has been cut in two. */
static int put(search *z, num x)
{
    const num at = z->lowest[x];
    z->offsets[x] = at;
    z->placed[x] = 1;
    for (num e = z->near_at[x]; e < z->near_at[x + 1]; e++) {
        const num y = z->near[e], a = z->align[y], up = (at + z->gap[e] + a - 1) / a * a;
        if (z->placed[y] || z->lowest[y] >= up) continue;
        z->changed[z->changes] = y;
        z->before[z->changes++] = z->lowest[y];
        z->lowest[y] = up;
    }
    const num from = z->weight_at[x] - z->first[x];
    int cut = 0;
    for (num s = z->first[x]; s < z->end[x]; s++) {
        z->rest[s] -= z->weight[from + s];
        if (s + 1 < z->end[x]) cut |= --z->crossing[s] == 0;
    }
    return cut;
}

static void take_back(search *z, num x, num changes)
{
    const num from = z->weight_at[x] - z->first[x];
    for (num s = z->first[x]; s < z->end[x]; s++) {
        z->rest[s] += z->weight[from + s];
        if (s + 1 < z->end[x]) z->crossing[s]++;
    }
    while (z->changes > changes) {
        z->changes--;
        z->lowest[z->changed[z->changes]] = z->before[z->changes];
    }
    z->placed[x] = 0;
}

static int may_fit(search *z, const num *part, num count, num begin, num end, num at)
{
    for (num s = begin; s < end; s++) z->floor[s] = INT64_MAX;
    for (num k = 0; k < count; k++) {
        const num x = part[k], low = z->lowest[x];
        if (z->placed[x]) continue;
        for (num s = z->first[x]; s < z->end[x]; s++) z->floor[s] = least(z->floor[s], low);
    }
    for (num s = begin; s < end; s++) {
        if (z->floor[s] == INT64_MAX) continue;
        const num needed = most(z->floor[s], at) + z->rest[s];
        if (needed > z->capacity) {
            z->beyond = least(z->beyond, needed);
            return 0;
        }
    }
    return 1;
}

static int fill(search *z, num *part, num count, num begin, num end, num low, num position);

static int fill_parts(search *z, const num *part, num count, num begin, num end, num low, num x, int cut, num *room)
{
    for (num s = begin; s < end; s++) {
        if (s + 1 < end && (!cut || z->crossing[s])) continue;
        num inside = 0, position = 0;
        for (num k = 0; k < count; k++) {
            const num y = part[k];
            if (y == x) position = inside;
            if (!z->placed[y] && z->first[y] >= begin && z->first[y] <= s) room[inside++] = y;
        }
        if (x < 0 || (cut && z->reorder)) {
            rank(z, room, inside);
            position = 0;
        }
        const int found = inside ? fill(z, room, inside, begin, s + 1, low, position) : 1;
        if (found != 1) return found;
        begin = s + 1;
    }
    return 1;
}

static int fill(search *z, num *part, num count, num begin, num end, num low, num position)
{
    num ceiling = INT64_MAX, *candidates = part + count, some = 0;
    for (num k = 0; k < count; k++) ceiling = least(ceiling, z->lowest[part[k]] + z->size[part[k]]);
    for (num k = 0; k < count; k++) {
        const num x = part[k], at = z->lowest[x];
        if (at < low || at >= ceiling || (at == low && k < position && !z->unranked[x])) continue;
        num j = some++;
        for (; j > 0 && z->lowest[candidates[j - 1]] > at; j--) candidates[j] = candidates[j - 1];
        candidates[j] = x;
    }
    for (num k = 0; k < some; k++) {
        const num x = candidates[k], at = z->lowest[x], changes = z->changes;
        if (z->tries-- <= 0) return -1;
        if (at + z->size[x] > z->capacity) {
            z->beyond = least(z->beyond, at + z->size[x]);
            continue;
        }
        const int cut = put(z, x);
        int found = may_fit(z, part, count, begin, end, at);
        if (found) found = fill_parts(z, part, count, begin, end, at, x, cut, candidates + some);
        take_back(z, x, changes);
        if (found) return found;
    }
    return 0;
}

int tw_search(num buffers, num sections, const num *size, const num *align, const num *first, const num *end, const num *near_at,
              const num *near, const num *gap, const num *weight_at, const num *weight, const num *load, const num *unranked,
              const num *order, num ordered, num reorder, num capacity, num *tries, num *beyond, num *offsets)
{
    search z = {.size = size, .align = align, .first = first, .end = end, .near_at = near_at, .near = near, .gap = gap,
                .weight_at = weight_at, .weight = weight, .unranked = unranked, .reorder = reorder, .capacity = capacity, .tries = *tries,
                .beyond = INT64_MAX, .offsets = offsets};
    /* one block: tables, and lists of buffers for every depth: a part and its candidates, each shorter by one than above */
    const size_t n = (size_t)buffers, s = (size_t)sections, pairs = (size_t)near_at[n];
    num *memory = calloc(4 * n + 3 * s + 2 * pairs + n * (n + 1), sizeof *memory);
    if (!memory) return -2;
    z.lowest = memory;
    z.placed = z.lowest + n;
    z.total = z.placed + n;
    z.standing = z.total + n;
    z.rest = z.standing + n;
    z.crossing = z.rest + s;
    z.floor = z.crossing + s;
    z.changed = z.floor + s;
    z.before = z.changed + pairs;
    for (size_t i = 0; i < s; i++) z.rest[i] = load[i];
    for (num k = 0; k < ordered; k++) z.standing[order[k]] = k;
    for (size_t x = 0; x < n; x++)
        for (num i = first[x]; i + 1 < end[x]; i++) z.crossing[i]++;
    const int found = fill_parts(&z, order, ordered, 0, sections, 0, -1, 1, z.before + pairs);
    *tries = z.tries;
    *beyond = z.beyond;
    free(memory);
    return found;
}
