/* tw_concatenation_s8.h - one input of a concatenation, put into its place in the output. */
#ifndef TW_CONCATENATION_S8_H
#define TW_CONCATENATION_S8_H

#include "tw.h"

/* For elements of more than one byte count bytes in c. */
typedef struct {
    tw_extents in, out;
    tw_extents before;  /* where the input begins in the output */
} tw_concatenation;

/* Writes what this input holds of the range of the output. Needs no scratch. */
void tw_concatenation_s8(const tw_concatenation *p, const void *in, void *out);

/* The same for a range of tw_fold(out), from and to parts of maps. */
void tw_concatenation_s8_part(const tw_concatenation *p, tw_view in, tw_view out, tw_range range);

#endif
