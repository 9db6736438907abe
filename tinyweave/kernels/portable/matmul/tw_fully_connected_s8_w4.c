/* tw_fully_connected_s8_w4.c - dense layer of int8 rows with int4 weights, portable C. */
#include "tw_fully_connected.h"

#include "tw_dot_w4.h"

TW_DENSE_FORMS(tw_fully_connected_s8_w4, tw_fully_connected, p, tw_int4_bytes(p->layer.in.c), 0, tw_dot_w4)
