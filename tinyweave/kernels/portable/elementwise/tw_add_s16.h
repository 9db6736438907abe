/* tw_add_s16.h - int16 sum or difference with broadcasting. */
#ifndef TW_ADD_S16_H
#define TW_ADD_S16_H

#include "tw_add.h"

/* As tw_add_s8, zero points and clamps being those of int16. Needs no scratch; out may lie over an operand of its extents. */
void tw_add_s16(const tw_add *p, const void *a, const void *b, void *out);

#endif
