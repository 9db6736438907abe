/* The path of least cost within a limit of weight: `CutGraph.within` of shortest_path.py, which explains the labels.
 *
 * `labels` holds the labels of all cuts, those of cut c at [labels_at[c], labels_at[c + 1]), sorted by cost. */
#include <stdlib.h>

#include "integers.h"

/* A path to a cut that no other path to it beats in cost and weight. */
typedef struct {
    i64 cost, weight;
    i64 edge;   /* its last edge; -1: the empty path to cut 0 */
    i64 before; /* index of the label of the path without that edge */
} label;

static int by_cost(const void *left, const void *right)
{
    const label *const a = left, *const b = right;
    if (a->cost != b->cost) return a->cost < b->cost ? -1 : 1;
    if (a->weight != b->weight) return a->weight < b->weight ? -1 : 1;
    if (a->edge != b->edge) return a->edge < b->edge ? -1 : 1;
    return a->before < b->before ? -1 : a->before > b->before;
}

/* Set `path` to the edges of the cheapest path from cut 0 to cut `last` of at most weight `limit`, the last edge first. Return how
 * many edges; 0 if there is no path, -1 if there is not enough memory. Edges are sorted by the cut where they end: those of cut c are
 * [arriving[c], arriving[c + 1]). O(edges * labels per cut) time. */
i64 tw_shortest(i64 last, const i64 *arriving, const i64 *begin, const i64 *weight, const i64 *cost, i64 limit, i64 *path)
{
    i64 *const left = malloc((size_t)(last + 1) * sizeof(i64)); /* per cut the least weight of a path from it to the end */
    i64 *const labels_at = malloc((size_t)(last + 2) * sizeof(i64));
    i64 room = 1024, count = 0, edges = -1;
    label *labels = malloc((size_t)room * sizeof *labels);
    if (!left || !labels_at || !labels) goto end;
    for (i64 cut = 0; cut < last; cut++) left[cut] = NEVER;
    left[last] = 0;
    for (i64 cut = last; cut > 0; cut--)
        for (i64 e = arriving[cut]; left[cut] < NEVER && e < arriving[cut + 1]; e++)
            if (cost[e] < NEVER) left[begin[e]] = minimum(left[begin[e]], left[cut] + weight[e]);
    labels[count++] = (label){0, 0, -1, -1};
    labels_at[0] = 0;
    labels_at[1] = 1;
    for (i64 cut = 1; cut <= last; cut++) {
        const i64 first = count;
        i64 kept = first, lightest = NEVER;
        for (i64 e = arriving[cut]; e < arriving[cut + 1]; e++) {
            if (cost[e] >= NEVER) continue;
            for (i64 k = labels_at[begin[e]]; k < labels_at[begin[e] + 1]; k++) {
                const i64 sum = labels[k].weight + weight[e];
                if (sum + left[cut] > limit) continue;
                if (count == room) {
                    label *const more = realloc(labels, (size_t)room * 2 * sizeof *labels);
                    if (!more) goto end;
                    labels = more;
                    room *= 2;
                }
                labels[count++] = (label){labels[k].cost + cost[e], sum, e, k};
            }
        }
        qsort(labels + first, (size_t)(count - first), sizeof *labels, by_cost);
        for (i64 k = first; k < count; k++)
            if (labels[k].weight < lightest) {
                lightest = labels[k].weight;
                labels[kept++] = labels[k];
            }
        count = kept;
        labels_at[cut + 1] = count;
    }
    edges = 0;
    if (labels_at[last] < count) /* labels are sorted by cost */
        for (i64 k = labels_at[last]; labels[k].edge >= 0; k = labels[k].before) path[edges++] = labels[k].edge;
end:
    free(left);
    free(labels_at);
    free(labels);
    return edges;
}
