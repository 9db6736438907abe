/* tw_conv.h - the parameters of a two-dimensional int8 convolution, dense, grouped or depthwise. */
#ifndef TW_CONV_H
#define TW_CONV_H

#include "tw.h"

typedef struct {
    tw_shape in, out;
    tw_size kernel, stride, dilation;
    tw_size pad;                /* rows above, columns left of the map */
    int32_t in_zero, out_zero;  /* zero points */
    int32_t out_min, out_max;   /* the fused activation's clamp, within -128 .. 127 */
} tw_conv_shape;

typedef struct {
    tw_conv_shape shape;
    int32_t groups;             /* conv_2d: 1 when dense; depthwise_conv_2d: in.c */
    const int8_t *weights;      /* int8, or int4 as tw_int4.h says; zero point 0 */
    const int32_t *bias;        /* [out.c], or a null pointer */
    const int32_t *multiplier;  /* [out.c], Q31 */
    const int8_t *shift;        /* [out.c], -31 .. 30, positive goes left */
} tw_conv;

/* The taps of one output pixel's window that lie inside the map; those outside are skipped, which equals padding with the
 * input's zero point. */
typedef struct {
    int32_t row_offset, row_tap;  /* of the first row of taps: where its map row begins in the view; its first tap's number */
    int32_t offset, tap;          /* of the first tap: where its pixel lies in the view; its number, kernel.w to a row */
    int32_t rows, cols;           /* how many taps */
    int32_t step, ring;           /* bytes from a row of taps to the next; of the whole ring */
    int32_t pixel;                /* bytes */
} tw_window;

/* The rows of the windows of output row `y`; a pixel of the input has `pixel` bytes. */
static inline tw_window tw_window_of(const tw_conv_shape *p, const tw_view *in, int32_t y, int32_t pixel)
{
    const int32_t top = y * p->stride.h - p->pad.h;
    const tw_span rows = tw_inside(top, p->kernel.h, p->dilation.h, p->in.h);
    tw_window window;
    window.row_offset = tw_offset(in, top + rows.begin * p->dilation.h, 0, pixel);
    window.row_tap = rows.begin * p->kernel.w;
    window.rows = rows.end - rows.begin;
    window.step = p->dilation.h * in->row_stride;
    window.ring = in->ring_height * in->row_stride;
    window.offset = window.tap = window.cols = 0;
    window.pixel = pixel;
    return window;
}

/* Moves a window to output column `x`. */
static inline void tw_window_cols(const tw_conv_shape *p, tw_window *window, int32_t x)
{
    const int32_t left = x * p->stride.w - p->pad.w;
    const tw_span cols = tw_inside(left, p->kernel.w, p->dilation.w, p->in.w);
    window->offset = window->row_offset + (left + cols.begin * p->dilation.w) * window->pixel;
    window->tap = window->row_tap + cols.begin;
    window->cols = cols.end - cols.begin;
}

/* Weights of a filter. */
static inline int32_t tw_conv_filter(const tw_conv *p)
{
    return p->shape.kernel.h * p->shape.kernel.w * (p->shape.in.c / p->groups);
}

/* Writes the outputs of `count` channels from `channel` on, of which `sums` has the products. */
void tw_conv_finish(const tw_conv *p, int32_t channel, const int32_t *sums, int32_t count, int8_t *to);

/* int8 convolution.
 * weights: [out.c][kernel.h][kernel.w][in.c / groups]. Needs no scratch. */
TW_DECLARE_FORMS(tw_conv_2d_s8, tw_conv);

/* The same with less code, and slower. */
TW_DECLARE_FORMS(tw_conv_2d_s8_compact, tw_conv);

/* Convolution of int8 maps with int4 weights.
 * weights: [out.c][kernel.h][kernel.w][in.c / groups], two to a byte, each filter in bytes of its own. Needs no scratch. */
TW_DECLARE_FORMS(tw_conv_2d_s8_w4, tw_conv);

/* int8 depthwise convolution.
 * weights: [kernel.h][kernel.w][out.c]; output channel k reads input channel k / (out.c / in.c). Needs no scratch. */
TW_DECLARE_FORMS(tw_depthwise_conv_2d_s8, tw_conv);

/* The same with less code, and slower. */
TW_DECLARE_FORMS(tw_depthwise_conv_2d_s8_compact, tw_conv);

/* Depthwise convolution of int8 maps with int4 weights.
 * weights: [kernel.h][kernel.w][out.c], two to a byte, each tap in bytes of its own; output channel k reads input channel k /
 * (out.c / in.c). Needs no scratch. */
TW_DECLARE_FORMS(tw_depthwise_conv_2d_s8_w4, tw_conv);

/* int8 transposed convolution.
 * weights: [out.c][kernel.h][kernel.w][in.c]; stride and pad belong to the output: input row y adds to the output rows y *
 * stride.h - pad.h + [0, kernel.h). dilation and groups are 1. Needs no scratch. */
TW_DECLARE_FORMS(tw_transpose_conv_s8, tw_conv);

typedef struct {
    tw_conv conv;
    int32_t weights_zero;  /* the weights' zero point */
} tw_conv_offset;

/* int8 convolution whose weights have a zero point, as models that were uint8 have.
 * weights: [out.c][kernel.h][kernel.w][in.c / groups]. Needs no scratch. */
TW_DECLARE_FORMS(tw_conv_2d_s8_offset, tw_conv_offset);

/* int8 depthwise convolution whose weights have a zero point.
 * weights: [kernel.h][kernel.w][out.c]. Needs no scratch. */
TW_DECLARE_FORMS(tw_depthwise_conv_2d_s8_offset, tw_conv_offset);

#endif
