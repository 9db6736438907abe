/* tw_resize_bilinear_s8_float.h - tw_resize_bilinear_s8 of a model that was uint8, which LiteRT computes in floats. */
#ifndef TW_RESIZE_BILINEAR_S8_FLOAT_H
#define TW_RESIZE_BILINEAR_S8_FLOAT_H

#include "tw.h"

/* Output (y, x) lies at input row (y + first) * scale_h - first, column (x + first) * scale_w - first. */
typedef struct {
    tw_shape in, out;
    float scale_h, scale_w;  /* above 0, or 0 where there is one place only */
    float first;             /* 0 or 0.5 */
} tw_resize_bilinear_float;

/* Elements are mixed as they were before 128 was taken from them. Needs no scratch. */
void tw_resize_bilinear_s8_float(const tw_resize_bilinear_float *p, const void *in, void *out);

/* The same for a range of the output, from and to parts of maps. */
void tw_resize_bilinear_s8_float_part(const tw_resize_bilinear_float *p, tw_view in, tw_view out, tw_range range);

#endif
