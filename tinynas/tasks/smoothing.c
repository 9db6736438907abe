/* smoothing.c - posterior smoothing, see smoothing.h. */
#include "smoothing.h"

#include <string.h>

void smoothing_begin(smoothing *state, int8_t *scores, int32_t *sums, int32_t classes, int32_t steps)
{
    state->scores = scores;
    state->sums = sums;
    state->classes = classes;
    state->steps = steps;
    state->at = state->silent = 0;
    memset(scores, -128, (size_t)classes * (size_t)steps);
    for (int32_t i = 0; i < classes; ++i) {
        sums[i] = -128 * steps;
    }
}

int32_t smoothing_step(smoothing *state, const int8_t *scores, int32_t threshold, int32_t pause)
{
    int8_t *oldest = state->scores + state->at * state->classes;
    int32_t best = 0;
    for (int32_t i = 0; i < state->classes; ++i) {
        state->sums[i] += scores[i] - oldest[i];
        oldest[i] = scores[i];
        best = state->sums[i] > state->sums[best] ? i : best;
    }
    state->at = (state->at + 1) % state->steps;
    if (state->silent > 0) {
        state->silent--;
        return -1;
    }
    if (state->sums[best] < threshold * state->steps) {
        return -1;
    }
    state->silent = pause;
    return best;
}
