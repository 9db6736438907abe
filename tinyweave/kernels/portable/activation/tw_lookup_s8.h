/* tw_lookup_s8.h - any function of one int8 element, by table. */
#ifndef TW_LOOKUP_S8_H
#define TW_LOOKUP_S8_H

#include "tw.h"

typedef struct {
    tw_shape shape;       /* of input and output */
    const int8_t *table;  /* [256]: the results for -128 .. 127, in this order */
} tw_lookup;

/* Needs no scratch; out may lie over in. */
void tw_lookup_s8(const tw_lookup *p, const void *in, void *out);

/* The same for a range of the output, from and to parts of maps. */
void tw_lookup_s8_part(const tw_lookup *p, tw_view in, tw_view out, tw_range range);

#endif
