/* tw_fully_connected_s8.c - int8 dense layer, portable C: the specification of every faster variant. */
#include "tw_fully_connected.h"

#include "tw_dot.h"

TW_DENSE_FORMS(tw_fully_connected_s8, tw_fully_connected, p, p->layer.in.c, 0, tw_dot_s8)
