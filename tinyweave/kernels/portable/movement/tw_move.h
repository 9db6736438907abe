/* tw_move.h - the same bytes elsewhere: a reshape whose output has a place of its own. */
#ifndef TW_MOVE_H
#define TW_MOVE_H

#include "tw.h"

/* Copy `bytes` bytes; in and out may overlap in any way. Needs no scratch. */
void tw_move(const void *in, void *out, int32_t bytes);

#endif
