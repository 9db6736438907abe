/* tw_resize_bilinear_s8.h - an int8 map stretched or shrunk, each output pixel mixed of the four around its place. */
#ifndef TW_RESIZE_BILINEAR_S8_H
#define TW_RESIZE_BILINEAR_S8_H

#include "tw.h"

/* Output (y, x) lies at input row (y * scale.h + offset.h) / 1024, column (x * scale.w + offset.w) / 1024. */
typedef struct {
    tw_shape in, out;
    tw_size scale;   /* at least 0 */
    tw_size offset;  /* -512 or more */
} tw_resize_bilinear;

/* Needs no scratch. */
void tw_resize_bilinear_s8(const tw_resize_bilinear *p, const void *in, void *out);

/* The same for a range of the output, from and to parts of maps. */
void tw_resize_bilinear_s8_part(const tw_resize_bilinear *p, tw_view in, tw_view out, tw_range range);

#endif
