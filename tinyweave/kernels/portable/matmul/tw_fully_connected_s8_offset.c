/* tw_fully_connected_s8_offset.c - int8 dense layer whose weights have a zero point, portable C. */
#include "tw_fully_connected.h"

#include "tw_dot.h"

TW_DENSE_FORMS(tw_fully_connected_s8_offset, tw_fully_connected_offset,
               &p->dense, p->dense.layer.in.c, p->weights_zero, tw_dot_s8)
