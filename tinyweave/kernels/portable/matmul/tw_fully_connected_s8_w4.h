/* tw_fully_connected_s8_w4.h - dense layer of int8 rows with int4 weights, portable C. */
#ifndef TW_FULLY_CONNECTED_S8_W4_H
#define TW_FULLY_CONNECTED_S8_W4_H

#include "tw_fully_connected.h"

/* Needs no scratch. */
void tw_fully_connected_s8_w4(const tw_fully_connected *p, const void *in, void *out);

/* The same for a range of the output, from and to parts of maps. */
void tw_fully_connected_s8_w4_part(const tw_fully_connected *p, tw_view in, tw_view out, tw_range range);

#endif
