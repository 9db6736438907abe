/* tw_requantize.h - one-byte integers to one-byte integers of another scale, with a clamp: quantize, relu, relu6. */
#ifndef TW_REQUANTIZE_H
#define TW_REQUANTIZE_H

#include "tw.h"

typedef struct {
    tw_shape shape;             /* of input and output */
    int32_t in_zero, out_zero;  /* zero points */
    int32_t out_min, out_max;   /* the clamp, within the type of the output */
    int32_t multiplier, shift;  /* Q31; a positive shift goes left */
} tw_requantization;

static inline int32_t tw_requantize_element(const tw_requantization *p, int32_t x)
{
    const int32_t scaled = tw_requantize(x - p->in_zero, p->multiplier, p->shift);
    return tw_clamp(scaled, p->out_min - p->out_zero, p->out_max - p->out_zero) + p->out_zero;
}

/* int8 (s8) or uint8 (u8) to either of another scale. No scratch; out may alias in. */
TW_DECLARE_FORMS(tw_requantize_s8_s8, tw_requantization);
TW_DECLARE_FORMS(tw_requantize_s8_u8, tw_requantization);
TW_DECLARE_FORMS(tw_requantize_u8_s8, tw_requantization);
TW_DECLARE_FORMS(tw_requantize_u8_u8, tw_requantization);

typedef struct { tw_shape shape; } tw_flip; /* of input and output */

/* uint8 to int8 of the same scale, or back. No scratch; out may alias in. */
TW_DECLARE_FORMS(tw_flip_signs, tw_flip);

typedef struct {
    tw_requantization scale;
    int32_t in_bytes, out_bytes; /* of an element, signed */
} tw_requantization_any;

/* integers of 1, 2 or 4 bytes to integers of another size and scale. Needs no scratch. */
void tw_requantize_any(const tw_requantization_any *p, const void *in, void *out);

#endif
