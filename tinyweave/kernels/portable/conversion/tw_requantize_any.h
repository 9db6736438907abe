/* tw_requantize_any.h - integers of 1, 2 or 4 bytes to integers of another size and scale. */
#ifndef TW_REQUANTIZE_ANY_H
#define TW_REQUANTIZE_ANY_H

#include "tw_requantize.h"

typedef struct {
    tw_requantization scale;
    int32_t in_bytes, out_bytes; /* of an element, signed */
} tw_requantization_any;

/* Needs no scratch. */
void tw_requantize_any(const tw_requantization_any *p, const void *in, void *out);

#endif
