/* tw_fully_connected_s8.h - int8 dense layer, portable C. */
#ifndef TW_FULLY_CONNECTED_S8_H
#define TW_FULLY_CONNECTED_S8_H

#include "tw.h"

typedef struct {
    tw_shape in, out;           /* {1, batch, depth} and {1, batch, units}: a pixel is one batch entry */
    int32_t in_zero, out_zero;  /* zero points */
    int32_t out_min, out_max;   /* the fused activation's clamp, within -128 .. 127 */
    int32_t per_channel;        /* 1: multiplier and shift are [out.c]; 0: one for all */
    const int8_t *weights;      /* [out.c][in.c], zero point 0 */
    const int32_t *bias;        /* [out.c], or a null pointer */
    const int64_t *multiplier;  /* Q63 */
    const int8_t *shift;        /* -32 .. 8, positive goes left */
} tw_fully_connected;

/* Rescales each sum with a single rounding, as LiteRT does here and only here. Needs no scratch. */
void tw_fully_connected_s8(const tw_fully_connected *p, const void *in, void *out);

/* The same for a range of the output, from and to parts of maps. */
void tw_fully_connected_s8_part(const tw_fully_connected *p, tw_view in, tw_view out, tw_range range);

/* The output of a sum of products of `channel`. */
int8_t tw_fully_connected_rescale(const tw_fully_connected *p, int32_t channel, int32_t sum);

#endif
