/* The shortest path within a limit of weight: shortest_path.py in C, statement for statement. The Python text explains it, the
 * tests keep both equal. All numbers are 64-bit integers. */
#include <stdint.h>
#include <stdlib.h>

typedef int64_t num;

#define NEVER ((num)1 << 60)

typedef struct {
    num cost, weight, edge, before; /* before: the label of the cut where the edge begins, among those of all cuts */
} label;

static int by_cost(const void *left, const void *right)
{
    const label *const a = left, *const b = right;
    if (a->cost != b->cost) return a->cost < b->cost ? -1 : 1;
    if (a->weight != b->weight) return a->weight < b->weight ? -1 : 1;
    if (a->edge != b->edge) return a->edge < b->edge ? -1 : 1;
    return a->before < b->before ? -1 : a->before > b->before;
}

static num least(num a, num b) { return a < b ? a : b; }

/* The edges of the path of least cost of those that weigh at most `limit`, the last one first; returns how many they are, 0 where
 * no path is, -1 when memory ran out. Edges lie by the cut where they end: those of cut c are [arriving[c], arriving[c + 1]). */
num tw_shortest(num last, const num *arriving, const num *begin, const num *weight, const num *cost, num limit, num *path)
{
    num *const left = malloc((size_t)(last + 1) * sizeof(num)); /* per cut the least weight of a path from it to the end */
    num *const labels_at = malloc((size_t)(last + 2) * sizeof(num));
    num room = 1024, count = 0, edges = -1;
    label *labels = malloc((size_t)room * sizeof *labels);
    if (!left || !labels_at || !labels) goto end;
    for (num cut = 0; cut < last; cut++) left[cut] = NEVER;
    left[last] = 0;
    for (num cut = last; cut > 0; cut--)
        for (num e = arriving[cut]; left[cut] < NEVER && e < arriving[cut + 1]; e++)
            if (cost[e] < NEVER) left[begin[e]] = least(left[begin[e]], left[cut] + weight[e]);
    labels[count++] = (label){0, 0, -1, -1};
    labels_at[0] = 0;
    labels_at[1] = 1;
    for (num cut = 1; cut <= last; cut++) {
        const num first = count;
        num kept = first, lightest = NEVER;
        for (num e = arriving[cut]; e < arriving[cut + 1]; e++) {
            if (cost[e] >= NEVER) continue;
            for (num k = labels_at[begin[e]]; k < labels_at[begin[e] + 1]; k++) {
                const num sum = labels[k].weight + weight[e];
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
        for (num k = first; k < count; k++)
            if (labels[k].weight < lightest) {
                lightest = labels[k].weight;
                labels[kept++] = labels[k];
            }
        count = kept;
        labels_at[cut + 1] = count;
    }
    edges = 0;
    if (labels_at[last] < count) /* labels lie by cost: the first of the last cut is the best */
        for (num k = labels_at[last]; labels[k].edge >= 0; k = labels[k].before) path[edges++] = labels[k].edge;
end:
    free(left);
    free(labels_at);
    free(labels);
    return edges;
}
