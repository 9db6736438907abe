/* tw_add_s8.h - int8 sum or difference with broadcasting, portable C. */
#ifndef TW_ADD_S8_H
#define TW_ADD_S8_H

#include "tw_add.h"

/* Needs no scratch; out may lie over an operand of the same extents. */
void tw_add_s8(const tw_add *p, const void *a, const void *b, void *out);

/* The same for a range of tw_fold(out), from and to parts of maps. */
void tw_add_s8_part(const tw_add *p, tw_view a, tw_view b, tw_view out, tw_range range);

#endif
