/* The least peak RAM of a planning problem over all paths of stages, as `ParetoSearch.least_bytes` of pareto.py finds it. */
#ifndef TW_PLANNING_LEAST_BYTES_H
#define TW_PLANNING_LEAST_BYTES_H

#include "stage_overlap.h"

/* The least bytes of the largest stage of any path that recomputes at most `mac_budget` multiply-accumulates; NEVER if there is no
 * such path, -1 if there is not enough memory. longest_tile: most ops of a tile. is_in_place: see overlap_space. The assumptions of
 * stage_overlap.h hold.
 *
 * Best-first search over cuts of the order: O(paths * log paths), but stages grow only from the cuts that a best path may use. */
i64 tw_least_bytes(const problem *p, const i64 *is_in_place, i64 mac_budget, i64 longest_tile);

#endif
