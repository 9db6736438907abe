/* tw_reduce_extremum_s8.h - int8 maximum or minimum over any axes, portable C. */
#ifndef TW_REDUCE_EXTREMUM_S8_H
#define TW_REDUCE_EXTREMUM_S8_H

#include "tw.h"

/* The input is [kept[0]][reduced[0]][kept[1]][reduced[1]][kept[2]], the output [kept[0]][kept[1]][kept[2]]; absent axes
 * are 1. */
typedef struct {
    int32_t kept[3], reduced[2];
    int32_t larger;  /* 1: the maximum, 0: the minimum */
} tw_reduce_extremum;

/* Each output may read all of the input: no ranges. Needs no scratch. */
void tw_reduce_extremum_s8(const tw_reduce_extremum *p, const void *in, void *out);

#endif
