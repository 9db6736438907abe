/* tw_requantize_s8_u8.h - int8 to uint8 of another scale. */
#ifndef TW_REQUANTIZE_S8_U8_H
#define TW_REQUANTIZE_S8_U8_H

#include "tw_requantize.h"

/* Needs no scratch; out may lie over in. */
void tw_requantize_s8_u8(const tw_requantization *p, const void *in, void *out);

/* The same for a range of the output, from and to parts of maps. */
void tw_requantize_s8_u8_part(const tw_requantization *p, tw_view in, tw_view out, tw_range range);

#endif
