/* tw_add_s4.h - int4 sum or difference with broadcasting, portable C. */
#ifndef TW_ADD_S4_H
#define TW_ADD_S4_H

#include "tw_add.h"

/* Needs no scratch; out may lie over an operand of the same extents. */
void tw_add_s4(const tw_add *p, const void *a, const void *b, void *out);

/* The same for a range of the output, from and to parts of maps. */
void tw_add_s4_part(const tw_add *p, tw_view a, tw_view b, tw_view out, tw_range range);

#endif
