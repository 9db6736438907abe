/* tw_fully_connected.h - what dense layers share: parameters, rescaling, and the portable loops. */
#ifndef TW_FULLY_CONNECTED_H
#define TW_FULLY_CONNECTED_H

#include "tw.h"

typedef struct {
    tw_shape in, out;           /* {1, batch, depth} and {1, batch, units}: a pixel is one batch entry */
    int32_t in_zero, out_zero;  /* zero points */
    int32_t out_min, out_max;   /* the fused activation's clamp, within the type of the output */
    int32_t per_channel;        /* 1: multiplier and shift are [out.c]; 0: one for all */
    const int64_t *multiplier;  /* Q63 */
    const int8_t *shift;        /* -32 .. 8, positive goes left */
} tw_dense;

typedef struct {
    tw_dense layer;
    const int8_t *weights;      /* [out.c][in.c], int8, or int4 as tw_int4.h says; zero point 0 */
    const int32_t *bias;        /* [out.c], or a null pointer */
} tw_fully_connected;

/* Writes the outputs of `count` channels from `channel` on, of which `sums` has the products: rescaled with a single rounding, as
 * LiteRT does here and only here. */
void tw_fully_connected_finish_s8(const tw_dense *p, const int32_t *bias, int32_t channel, const int32_t *sums, int32_t count,
                                  int8_t *pixel);

/* Computes `count` batch entries; a filter has `filter` bytes. Four output channels share each input, and its sum, which the zero
 * point of weights multiplies: the sum of x * (weight - weights_zero) is that of x * weight, less weights_zero times that of x. */
TW_INLINE void tw_fully_connected_over(const tw_fully_connected *p, const int8_t *from, int8_t *to, int32_t count, int32_t filter,
                                       int32_t weights_zero, tw_products *dot)
{
    const int32_t depth = p->layer.in.c;
    for (; count > 0; --count) {
        const int8_t *weights = p->weights;
        int32_t shared = 0;
        for (int32_t i = 0; weights_zero && i < depth; ++i) {
            shared -= weights_zero * (from[i] - p->layer.in_zero);
        }
        for (int32_t channel = 0, filters; channel < p->layer.out.c; channel += filters, weights += filters * filter) {
            int32_t sums[4] = {shared, shared, shared, shared};
            filters = tw_min(p->layer.out.c - channel, 4);
            dot(from, 0, p->layer.in_zero, weights, filter, 0, depth, filters, sums);
            tw_fully_connected_finish_s8(&p->layer, p->bias, channel, sums, filters, to);
        }
        from += depth;
        to += p->layer.out.c;
    }
}

/* Writes all outputs if `range` ends with the last row of the map; `row` are the elements of a row. */
static inline void tw_fully_connected_end_rows(const tw_fully_connected *p, tw_range range, int32_t row, const int32_t *sums,
                                               void *out)
{
    if (range.row_end * row == p->layer.in.c) {
        tw_fully_connected_finish_s8(&p->layer, p->bias, 0, sums, p->layer.out.c, (int8_t *)out);
    }
}

/* Adds the products of rows of a flattened map to `sums`, as the _rows forms below. Row y uses the weights from y * row on. */
TW_INLINE void tw_fully_connected_over_rows(const tw_fully_connected *p, tw_view in, void *out, tw_range range, int32_t *sums,
                                            int32_t filter, int32_t weights_zero, tw_products *dot)
{
    const int32_t row = in.row_stride;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *const from = (const int8_t *)tw_pixel(&in, y, 0, 0), *weights = p->weights;
        int32_t shared = 0;
        for (int32_t i = 0; weights_zero && i < row; ++i) {
            shared -= weights_zero * (from[i] - p->layer.in_zero);
        }
        for (int32_t channel = 0, filters; channel < p->layer.out.c; channel += filters, weights += filters * filter) {
            filters = tw_min(p->layer.out.c - channel, 4);
            for (int32_t i = channel; i < channel + filters; ++i) {
                sums[i] = shared + (y == 0 ? 0 : sums[i]);
            }
            dot(from, 0, p->layer.in_zero, weights, filter, y * row, row, filters, sums + channel);
        }
    }
    tw_fully_connected_end_rows(p, range, row, sums, out);
}

/* Defines the three forms of a kernel by the two functions above; dense: the parameters that tw_fully_connected_over takes. */
#define TW_DENSE_FORMS(kernel, params, dense, filter, weights_zero, dot)                                                             \
    TW_NOT_INLINE void kernel##_all(const params *p, const void *in, void *out, int32_t count)                                       \
    {                                                                                                                                \
        tw_fully_connected_over(dense, (const int8_t *)in, (int8_t *)out, count, filter, weights_zero, dot);                         \
    }                                                                                                                                \
    void kernel(const params *p, const void *in, void *out) { kernel##_all(p, in, out, (dense)->layer.in.h * (dense)->layer.in.w); } \
    void kernel##_part(const params *p, tw_view in, tw_view out, tw_range range)                                                     \
    {                                                                                                                                \
        for (int32_t y = range.row_begin; y < range.row_end; ++y) {                                                                  \
            kernel##_all(p, tw_pixel(&in, y, range.col_begin, (dense)->layer.in.c),                                                  \
                         tw_pixel(&out, y, range.col_begin, (dense)->layer.out.c), range.col_end - range.col_begin);                 \
        }                                                                                                                            \
    }                                                                                                                                \
    void kernel##_rows(const params *p, tw_view in, void *out, tw_range range, int32_t *sums)                                        \
    {                                                                                                                                \
        tw_fully_connected_over_rows(dense, in, out, range, sums, filter, weights_zero, dot);                                        \
    }

/* int8 dense layer. Needs no scratch. Each _rows form takes a map, flattened, row by row. */
TW_DECLARE_ROW_FORMS(tw_fully_connected_s8, tw_fully_connected);

/* The same with the Arm DSP extension. */
TW_DECLARE_ROW_FORMS(tw_fully_connected_s8_raw_dsp, tw_fully_connected);

/* The same with less code, and slower. */
TW_DECLARE_ROW_FORMS(tw_fully_connected_s8_compact, tw_fully_connected);

/* Dense layer of int8 rows with int4 weights. Needs no scratch. */
TW_DECLARE_ROW_FORMS(tw_fully_connected_s8_w4, tw_fully_connected);

/* Dense layer of int16 rows with int8 weights. All zero points are 0, and no sum with its bias exceeds 32 bits. Needs no
 * scratch. */
void tw_fully_connected_s16(const tw_fully_connected *p, const void *in, void *out);

/* The same with the Arm DSP extension, or the MVE extension. */
void tw_fully_connected_s16_dsp(const tw_fully_connected *p, const void *in, void *out);
void tw_fully_connected_s16_mve(const tw_fully_connected *p, const void *in, void *out);

typedef struct {
    tw_fully_connected dense;
    int32_t weights_zero;  /* the weights' zero point */
} tw_fully_connected_offset;

/* int8 dense layer whose weights have a zero point. Rescales each sum with a single rounding. Needs no scratch. */
TW_DECLARE_ROW_FORMS(tw_fully_connected_s8_offset, tw_fully_connected_offset);

#endif
