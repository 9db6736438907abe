/* tw_fully_connected_s8_offset.h - int8 dense layer whose weights have a zero point, portable C. */
#ifndef TW_FULLY_CONNECTED_S8_OFFSET_H
#define TW_FULLY_CONNECTED_S8_OFFSET_H

#include "tw_fully_connected.h"

typedef struct {
    tw_fully_connected dense;
    int32_t weights_zero;  /* the weights' zero point */
} tw_fully_connected_offset;

/* Rescales each sum with a single rounding. Needs no scratch. */
void tw_fully_connected_s8_offset(const tw_fully_connected_offset *p, const void *in, void *out);

/* The same for a range, from and to parts of maps. */
void tw_fully_connected_s8_offset_part(const tw_fully_connected_offset *p, tw_view in, tw_view out, tw_range range);

#endif
