/* tw_requantize.h - one-byte integers to one-byte integers of another scale, with a clamp: quantize, relu, relu6. */
#ifndef TW_REQUANTIZE_H
#define TW_REQUANTIZE_H

#include "tw_int4.h"

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

/* The range of a map of int8 or int4 values, two at a time. */
TW_INLINE void tw_requantize_pairs(const tw_requantization *p, tw_view in, int in_bits, tw_view out, int out_bits, tw_range range)
{
    const int32_t channels = p->shape.c, in_pixel = tw_bytes(channels, in_bits), out_pixel = tw_bytes(channels, out_bits);
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *from = (const int8_t *)tw_pixel(&in, y, range.col_begin, in_pixel);
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, out_pixel);
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            for (int32_t i = 0; i < channels; i += 2) {
                const int next = i + 1 < channels;
                const int32_t low = tw_requantize_element(p, tw_value(from, i, in_bits));
                const int32_t high = next ? tw_requantize_element(p, tw_value(from, i + 1, in_bits)) : 0;
                if (out_bits == 4) {
                    to[i >> 1] = tw_int4_pair(low, high);
                    continue;
                }
                to[i] = (int8_t)low;
                if (next) {
                    to[i + 1] = (int8_t)high;
                }
            }
            from += in_pixel;
            to += out_pixel;
        }
    }
}

/* Each _part form computes a range of the output between views. */

/* int8 to int8 of another scale. No scratch; out may alias in. */
void tw_requantize_s8_s8(const tw_requantization *p, const void *in, void *out);
void tw_requantize_s8_s8_part(const tw_requantization *p, tw_view in, tw_view out, tw_range range);

/* int8 to uint8 of another scale. No scratch; out may alias in. */
void tw_requantize_s8_u8(const tw_requantization *p, const void *in, void *out);
void tw_requantize_s8_u8_part(const tw_requantization *p, tw_view in, tw_view out, tw_range range);

/* uint8 to int8 of another scale. No scratch; out may alias in. */
void tw_requantize_u8_s8(const tw_requantization *p, const void *in, void *out);
void tw_requantize_u8_s8_part(const tw_requantization *p, tw_view in, tw_view out, tw_range range);

/* uint8 to uint8 of another scale. No scratch; out may alias in. */
void tw_requantize_u8_u8(const tw_requantization *p, const void *in, void *out);
void tw_requantize_u8_u8_part(const tw_requantization *p, tw_view in, tw_view out, tw_range range);

typedef struct { tw_shape shape; } tw_flip; /* of input and output */

/* uint8 to int8 of the same scale, or back. No scratch; out may alias in. */
void tw_flip_signs(const tw_flip *p, const void *in, void *out);
void tw_flip_signs_part(const tw_flip *p, tw_view in, tw_view out, tw_range range);

/* int8 to int4 of another scale. Needs no scratch. */
void tw_requantize_s8_s4(const tw_requantization *p, const void *in, void *out);
void tw_requantize_s8_s4_part(const tw_requantization *p, tw_view in, tw_view out, tw_range range);

/* int4 to int8 of another scale. Needs no scratch. */
void tw_requantize_s4_s8(const tw_requantization *p, const void *in, void *out);
void tw_requantize_s4_s8_part(const tw_requantization *p, tw_view in, tw_view out, tw_range range);

typedef struct {
    tw_requantization scale;
    int32_t in_bytes, out_bytes; /* of an element, signed */
} tw_requantization_any;

/* integers of 1, 2 or 4 bytes to integers of another size and scale. Needs no scratch. */
void tw_requantize_any(const tw_requantization_any *p, const void *in, void *out);

#endif
