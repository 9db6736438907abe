/* tw_requantize_s8_s4.h - int8 to int4 of another scale, portable C. */
#ifndef TW_REQUANTIZE_S8_S4_H
#define TW_REQUANTIZE_S8_S4_H

#include "tw_requantize.h"

/* Needs no scratch. */
void tw_requantize_s8_s4(const tw_requantization *p, const void *in, void *out);

/* The same for a range of the output, from and to parts of maps. */
void tw_requantize_s8_s4_part(const tw_requantization *p, tw_view in, tw_view out, tw_range range);

#endif
