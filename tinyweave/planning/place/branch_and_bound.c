/* branch_and_bound.c - exact placement: does every buffer fit within `capacity` bytes?
 *
 * Problem: dynamic storage allocation. Buffers have fixed sizes and lifetimes; two buffers in conflict must be at least a
 * given gap apart. The decision problem is NP-complete.
 *
 * Algorithm: depth-first branch and bound, as in MiniMalloc (Moffitt, ASPLOS 2024). Buffers are placed in order of rising
 * offset, each at the lowest offset that the placed ones allow. Every feasible instance has such a placement, so the
 * search is exact. A partial placement is rejected if, in some section of time, the lowest offset still possible plus the
 * bytes still to be placed exceeds the capacity. Once no unplaced buffer is alive on both sides of a boundary between two
 * sections, the two sides are solved independently.
 *
 * Complexity: exponential in the number of buffers, so at most `tries` placements of one buffer are made. One placement
 * takes O(buffers * sections) time. Memory is O(buffers^2 + sections + conflicts).
 *
 * branch_and_bound.py holds the same algorithm in Python, function by function. tests/planning/place/test_place.py
 * compares them. All tables hold 64-bit integers. */
#include <stdint.h>
#include <stdlib.h>

typedef int64_t num;

typedef struct {
    const num *size, *align, *first, *end;       /* per buffer; its sections are [first, end) */
    const num *conflict_at, *conflicts, *gap;    /* buffer x conflicts with conflicts[i] at distance gap[i], for i in
                                                  * [conflict_at[x], conflict_at[x + 1]) */
    const num *weight_at, *weight;               /* buffer x in section s: weight[weight_at[x] + s - first[x]] */
    const num *may_coincide;                     /* per buffer: may start at the offset of a buffer in conflict with it */
    num reorder;                                 /* re-sort the buffers by load whenever the search splits */
    num capacity, tries;
    num next_bound;                              /* the smallest need above `capacity` that rejected a partial placement */
    num *offsets, *placed;
    num *lowest;                                 /* per buffer: the lowest offset that the placed buffers allow */
    num *remaining;                              /* per section: bytes that its unplaced buffers add at least */
    num *crossing;                               /* per section: unplaced buffers alive in it and in the next one */
    num *floor, *total, *rank_of;                /* temporaries of may_fit and sort_by_load; position in the given order */
    num *raised, *old_lowest;                    /* undo log: buffers whose `lowest` was raised, and its value before */
    num raised_count;
} search;

static num most(num a, num b) { return a > b ? a : b; }
static num least(num a, num b) { return a < b ? a : b; }

/* Sort the buffers of `part` by the load of their busiest section, largest first; break ties by the given order. */
static void sort_by_load(search *z, num *part, num count)
{
    for (num k = 0; k < count; k++) {
        const num x = part[k];
        num total = INT64_MIN, j = k;
        for (num s = z->first[x]; s < z->end[x]; s++) total = most(total, z->remaining[s]);
        z->total[x] = total;
        for (; j > 0; j--) {
            const num y = part[j - 1];
            if (z->total[y] > total || (z->total[y] == total && z->rank_of[y] < z->rank_of[x])) break;
            part[j] = y;
        }
        part[j] = x;
    }
}

/* Place x at its lowest offset. Returns 1 if some section is no longer linked to the next one. */
static int place(search *z, num x)
{
    const num at = z->lowest[x];
    z->offsets[x] = at;
    z->placed[x] = 1;
    for (num e = z->conflict_at[x]; e < z->conflict_at[x + 1]; e++) {
        const num y = z->conflicts[e], a = z->align[y], up = (at + z->gap[e] + a - 1) / a * a;
        if (z->placed[y] || z->lowest[y] >= up) continue;
        z->raised[z->raised_count] = y;
        z->old_lowest[z->raised_count++] = z->lowest[y];
        z->lowest[y] = up;
    }
    const num from = z->weight_at[x] - z->first[x];
    int split = 0;
    for (num s = z->first[x]; s < z->end[x]; s++) {
        z->remaining[s] -= z->weight[from + s];
        if (s + 1 < z->end[x]) split |= --z->crossing[s] == 0;
    }
    return split;
}

/* Take x back, and undo the log down to `raised_count` entries. */
static void undo(search *z, num x, num raised_count)
{
    const num from = z->weight_at[x] - z->first[x];
    for (num s = z->first[x]; s < z->end[x]; s++) {
        z->remaining[s] += z->weight[from + s];
        if (s + 1 < z->end[x]) z->crossing[s]++;
    }
    while (z->raised_count > raised_count) {
        z->raised_count--;
        z->lowest[z->raised[z->raised_count]] = z->old_lowest[z->raised_count];
    }
    z->placed[x] = 0;
}

/* Return 0 if the unplaced buffers of `part` exceed the capacity in some section of [begin, end), when no further buffer can
 * start below `at`. */
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
        const num needed = most(z->floor[s], at) + z->remaining[s];
        if (needed > z->capacity) {
            z->next_bound = least(z->next_bound, needed);
            return 0;
        }
    }
    return 1;
}

static int solve(search *z, num *part, num count, num begin, num end, num low, num first_at_low);

/* Place the unplaced buffers of `part`, one run of linked sections at a time. x: the buffer placed last, -1 for none.
 * Returns as `solve`. */
static int solve_parts(search *z, const num *part, num count, num begin, num end, num low, num x, int split, num *room)
{
    for (num s = begin; s < end; s++) {
        if (s + 1 < end && (!split || z->crossing[s])) continue;
        num inside = 0, first_at_low = 0;
        for (num k = 0; k < count; k++) {
            const num y = part[k];
            if (y == x) first_at_low = inside;
            if (!z->placed[y] && z->first[y] >= begin && z->first[y] <= s) room[inside++] = y;
        }
        if (x < 0 || (split && z->reorder)) {
            sort_by_load(z, room, inside);
            first_at_low = 0;
        }
        const int solved = inside ? solve(z, room, inside, begin, s + 1, low, first_at_low) : 1;
        if (solved != 1) return solved;
        begin = s + 1;
    }
    return 1;
}

/* Place all of `part` at offset `low` or above; at `low` itself only the buffers from index `first_at_low` on, since placements
 * with an earlier one there have been tried. Returns 1 if placed, 0 if impossible, -1 if out of tries. */
static int solve(search *z, num *part, num count, num begin, num end, num low, num first_at_low)
{
    /* a buffer above this offset leaves a hole in which another whole buffer fits */
    num ceiling = INT64_MAX, *candidates = part + count, candidate_count = 0;
    for (num k = 0; k < count; k++) ceiling = least(ceiling, z->lowest[part[k]] + z->size[part[k]]);
    for (num k = 0; k < count; k++) {
        const num x = part[k], at = z->lowest[x];
        if (at < low || at >= ceiling || (at == low && k < first_at_low && !z->may_coincide[x])) continue;
        num j = candidate_count++;
        for (; j > 0 && z->lowest[candidates[j - 1]] > at; j--) candidates[j] = candidates[j - 1];
        candidates[j] = x;
    }
    for (num k = 0; k < candidate_count; k++) {
        const num x = candidates[k], at = z->lowest[x], raised_count = z->raised_count;
        if (z->tries-- <= 0) return -1;
        if (at + z->size[x] > z->capacity) {
            z->next_bound = least(z->next_bound, at + z->size[x]);
            continue;
        }
        const int split = place(z, x);
        int solved = may_fit(z, part, count, begin, end, at);
        if (solved) solved = solve_parts(z, part, count, begin, end, at, x, split, candidates + candidate_count);
        undo(z, x, raised_count);
        if (solved) return solved;
    }
    return 0;
}

/* Search for offsets within `capacity`. Returns 1 if found (`offsets` is filled), 0 if impossible (no arena smaller than
 * `next_bound` exists), -1 if out of tries, -2 if out of memory. `tries` is reduced by the placements made. */
int tw_search(num buffers, num sections, const num *size, const num *align, const num *first, const num *end,
              const num *conflict_at, const num *conflicts, const num *gap, const num *weight_at, const num *weight,
              const num *load, const num *may_coincide, const num *order, num ordered,
              num reorder, num capacity, num *tries, num *next_bound, num *offsets)
{
    search z = {.size = size, .align = align, .first = first, .end = end, .conflict_at = conflict_at, .conflicts = conflicts,
                .gap = gap, .weight_at = weight_at, .weight = weight, .may_coincide = may_coincide, .reorder = reorder,
                .capacity = capacity, .tries = *tries, .next_bound = INT64_MAX, .offsets = offsets};
    /* one block: the tables, then per depth of the search a part and its candidates, each at least one shorter than above */
    const size_t n = (size_t)buffers, s = (size_t)sections, pairs = (size_t)conflict_at[n];
    num *memory = calloc(4 * n + 3 * s + 2 * pairs + n * (n + 1), sizeof *memory);
    if (!memory) return -2;
    z.lowest = memory;
    z.placed = z.lowest + n;
    z.total = z.placed + n;
    z.rank_of = z.total + n;
    z.remaining = z.rank_of + n;
    z.crossing = z.remaining + s;
    z.floor = z.crossing + s;
    z.raised = z.floor + s;
    z.old_lowest = z.raised + pairs;
    for (size_t i = 0; i < s; i++) z.remaining[i] = load[i];
    for (num k = 0; k < ordered; k++) z.rank_of[order[k]] = k;
    for (size_t x = 0; x < n; x++)
        for (num i = first[x]; i + 1 < end[x]; i++) z.crossing[i]++;
    const int solved = solve_parts(&z, order, ordered, 0, sections, 0, -1, 1, z.old_lowest + pairs);
    *tries = z.tries;
    *next_bound = z.next_bound;
    free(memory);
    return solved;
}
