/* tw_mean_s8.h - int8 mean over any axes, portable C. */
#ifndef TW_MEAN_S8_H
#define TW_MEAN_S8_H

#include "tw.h"

/* The input is [kept[0]][reduced[0]][kept[1]][reduced[1]][kept[2]], the output [kept[0]][kept[1]][kept[2]]; absent axes
 * are 1. A spatial mean is kept = {n, c, 1}, reduced = {h * w, 1}. */
typedef struct {
    int32_t kept[3], reduced[2];
    int32_t in_zero, out_zero;  /* zero points */
    int32_t multiplier, shift;  /* of a sum less its zero points, 1 / count included; Q31, a positive shift goes left */
} tw_mean;

/* Each output may read all of the input. Needs no scratch. */
void tw_mean_s8(const tw_mean *p, const void *in, void *out);

/* A mean over the columns of each row, kept = {h, c, 1}, reduced = {w, 1}, for a range of the output, from and to parts of
 * maps. */
void tw_mean_s8_part(const tw_mean *p, tw_view in, tw_view out, tw_range range);

/* A spatial mean over rows as they come, from part of the map: adds a range of whole rows to sums[c], which row 0 sets up, and
 * writes out with the last row. */
void tw_mean_s8_rows(const tw_mean *p, tw_view in, void *out, tw_range range, int32_t *sums);

#endif
