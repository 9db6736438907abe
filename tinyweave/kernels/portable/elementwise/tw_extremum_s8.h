/* tw_extremum_s8.h - the smaller or the larger of two int8 operands with broadcasting, portable C. */
#ifndef TW_EXTREMUM_S8_H
#define TW_EXTREMUM_S8_H

#include "tw.h"

typedef struct {
    tw_extents a, b, out;  /* each axis of a and b is that of out, or 1 */
    int32_t larger;        /* 1: the larger, 0: the smaller */
} tw_extremum;

/* Needs no scratch; out may lie over an operand of the same extents. */
void tw_extremum_s8(const tw_extremum *p, const void *a, const void *b, void *out);

/* The same for a range of tw_fold(out), from and to parts of maps. */
void tw_extremum_s8_part(const tw_extremum *p, tw_view a, tw_view b, tw_view out, tw_range range);

#endif
