/* tw_requantize_s4_s8.h - int4 to int8 of another scale, portable C. */
#ifndef TW_REQUANTIZE_S4_S8_H
#define TW_REQUANTIZE_S4_S8_H

#include "tw_requantize.h"

/* Needs no scratch. */
void tw_requantize_s4_s8(const tw_requantization *p, const void *in, void *out);

/* The same for a range of the output, from and to parts of maps. */
void tw_requantize_s4_s8_part(const tw_requantization *p, tw_view in, tw_view out, tw_range range);

#endif
