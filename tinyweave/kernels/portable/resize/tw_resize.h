/* tw_resize.h - a map stretched or shrunk: each output pixel is one of the input, or mixed of the four around its place.
 *
 * A _part form computes a range of the output between views.
 */
#ifndef TW_RESIZE_H
#define TW_RESIZE_H

#include "tw.h"

/* Output (y, x) is the input's pixel (row[y], col[x]). For elements of more than one byte count bytes in c. */
typedef struct {
    tw_shape in, out;
    const int32_t *row;  /* out.h of them */
    const int32_t *col;  /* out.w of them */
} tw_resize_nearest;

/* Needs no scratch. */
TW_DECLARE_FORMS(tw_resize_nearest_neighbor_s8, tw_resize_nearest);

/* Output (y, x) lies at input row (y * scale.h + offset.h) / 1024, column (x * scale.w + offset.w) / 1024. */
typedef struct {
    tw_shape in, out;
    tw_size scale;   /* at least 0 */
    tw_size offset;  /* -512 or more */
} tw_resize_bilinear;

/* Needs no scratch. */
TW_DECLARE_FORMS(tw_resize_bilinear_s8, tw_resize_bilinear);

/* The same of int16 maps. */
void tw_resize_bilinear_s16(const tw_resize_bilinear *p, const void *in, void *out);

/* For a model that was uint8, which LiteRT computes in floats.
 * Output (y, x) lies at input row (y + first) * scale_h - first, column (x + first) * scale_w - first. */
typedef struct {
    tw_shape in, out;
    float scale_h, scale_w;  /* above 0, or 0 where there is one place only */
    float first;             /* 0 or 0.5 */
} tw_resize_bilinear_float;

/* Elements are mixed as they were before 128 was taken from them. Needs no scratch. */
TW_DECLARE_FORMS(tw_resize_bilinear_s8_float, tw_resize_bilinear_float);

#endif
