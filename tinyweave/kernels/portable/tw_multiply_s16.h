/* tw_multiply_s16.h - products of int16 inputs with int8 weights: what convolutions and dense layers ask of their inner loops. */
#ifndef TW_MULTIPLY_S16_H
#define TW_MULTIPLY_S16_H

#include "tw.h"

#define TW_FILTERS_S16 4

/* The inputs of an output: `rows` rows of `runs` runs of `count` inputs. The weights of a row's runs follow each other. Steps are
 * in elements. */
typedef struct {
    const int16_t *x;
    const int8_t *weights;       /* of the first filter */
    int32_t filter, before;      /* from a filter to the next; filters before the first one, of any group */
    int32_t rows, x_row, w_row;
    int32_t runs, x_run, count;
} tw_runs_s16;

/* The sums of products with at most four filters, modulo 2^32. */
typedef struct { int32_t of[TW_FILTERS_S16]; } tw_sums_s16;
typedef tw_sums_s16 tw_multiply_s16(const tw_runs_s16 *runs, int32_t filters);

#endif
