/* smoothing.h - posterior smoothing: a class is detected by the mean of its last scores, not by one of them. */
#ifndef SMOOTHING_H
#define SMOOTHING_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The last `steps` scores of `classes` classes, and their sums; the caller provides both arrays. */
typedef struct {
    int8_t *scores; /* steps * classes */
    int32_t *sums;  /* classes */
    int32_t classes, steps, at, silent;
} smoothing;

/* Begin, as if all scores before had been -128. */
void smoothing_begin(smoothing *state, int8_t *scores, int32_t *sums, int32_t classes, int32_t steps);

/* Take the network's scores of one step. Return the class whose mean is the largest (the first of equals), if it is at least
   `threshold`, else -1. After a class was returned, -1 for `pause` steps. */
int32_t smoothing_step(smoothing *state, const int8_t *scores, int32_t threshold, int32_t pause);

#ifdef __cplusplus
}
#endif

#endif
