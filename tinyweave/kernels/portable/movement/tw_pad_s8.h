/* tw_pad_s8.h - a tensor in a larger one filled with a value, up to four axes. */
#ifndef TW_PAD_S8_H
#define TW_PAD_S8_H

#include "tw.h"

/* For elements of more than one byte count bytes in c: c of in, out and before times the element size, and value 0. */
typedef struct {
    tw_extents in, out;
    tw_extents before;  /* where the input begins in the output */
    int32_t value;      /* what the rest holds, -128 .. 127 */
} tw_pad;

/* Needs no scratch. */
void tw_pad_s8(const tw_pad *p, const void *in, void *out);

/* The same for a range of tw_fold(out), from and to parts of maps. */
void tw_pad_s8_part(const tw_pad *p, tw_view in, tw_view out, tw_range range);

#endif
