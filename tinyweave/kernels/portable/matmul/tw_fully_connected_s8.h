/* tw_fully_connected_s8.h - int8 dense layer, portable C. */
#ifndef TW_FULLY_CONNECTED_S8_H
#define TW_FULLY_CONNECTED_S8_H

#include "tw_fully_connected.h"

/* Needs no scratch. */
void tw_fully_connected_s8(const tw_fully_connected *p, const void *in, void *out);

/* The same for a range of the output, from and to parts of maps. */
void tw_fully_connected_s8_part(const tw_fully_connected *p, tw_view in, tw_view out, tw_range range);

#endif
