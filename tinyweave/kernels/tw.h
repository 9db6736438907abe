/* tw.h - what all tinyweave kernels share: how memory is addressed, and fixed-point arithmetic.
 *
 * A kernel computes the output rows and columns of one `tw_range`, reading and writing through `tw_view`s. A view is a
 * whole feature map or a ring of its rows (a rolling buffer), so that layer-by-layer and fused execution use the same
 * kernels. C99, no heap, no globals but constants, no libc.
 */
#ifndef TW_H
#define TW_H

#include <stdint.h>

typedef struct { int32_t h, w, c; } tw_shape;
typedef struct { int32_t h, w; } tw_size;

/* Rows [row_begin, row_end) x columns [col_begin, col_end) of a feature map. */
typedef struct { int32_t row_begin, row_end, col_begin, col_end; } tw_range;

/* A feature map, or the part of it that is in memory.
 * Map row r lies in slot r - first_row, wrapped once into [0, ring_height); a whole map has ring_height >= its height.
 * In a slot, map column x lies at element (x - first_col) * channels. */
typedef struct {
    void *data;          /* slot 0 */
    int32_t row_stride;  /* bytes from a slot to the next */
    int32_t ring_height; /* slots */
    int32_t first_row;   /* the map row in slot 0 */
    int32_t first_col;   /* the map column at the start of a slot */
} tw_view;

/* The view of a whole feature map of int8 elements at `data`. */
static inline tw_view tw_whole(void *data, tw_shape shape)
{
    tw_view view = {data, shape.w * shape.c, shape.h, 0, 0};
    return view;
}

/* Every row and column of a feature map. */
static inline tw_range tw_all(tw_shape shape)
{
    tw_range range = {0, shape.h, 0, shape.w};
    return range;
}

/* The start of the slot that holds map row `row`, which must be within ring_height - 1 rows of first_row. */
static inline void *tw_row(const tw_view *view, int32_t row)
{
    int32_t slot = row - view->first_row;
    if (slot < 0) {
        slot += view->ring_height;
    } else if (slot >= view->ring_height) {
        slot -= view->ring_height;
    }
    return (uint8_t *)view->data + slot * view->row_stride;
}

static inline int32_t tw_min(int32_t a, int32_t b) { return a < b ? a : b; }
static inline int32_t tw_max(int32_t a, int32_t b) { return a > b ? a : b; }
static inline int32_t tw_clamp(int32_t x, int32_t low, int32_t high) { return tw_min(tw_max(x, low), high); }

/* a * b / 2^31, rounded half up, saturated at -2^31 * -2^31 (gemmlowp SaturatingRoundingDoublingHighMul). */
static inline int32_t tw_high_mul(int32_t a, int32_t b)
{
    if (a == INT32_MIN && b == INT32_MIN) {
        return INT32_MAX;
    }
    return (int32_t)(((int64_t)a * b + ((int64_t)1 << 30)) >> 31);
}

/* x / 2^exponent, rounded half away from zero, 0 <= exponent <= 31 (gemmlowp RoundingDivideByPOT). */
static inline int32_t tw_rounding_shift(int32_t x, int32_t exponent)
{
    const int32_t mask = (int32_t)(((int64_t)1 << exponent) - 1);
    const int32_t threshold = (mask >> 1) + (x < 0 ? 1 : 0);
    return (x >> exponent) + ((x & mask) > threshold ? 1 : 0);
}

/* x * 2^exponent modulo 2^32. */
static inline int32_t tw_shift_left(int32_t x, int32_t exponent) { return (int32_t)((uint32_t)x << exponent); }

/* x * multiplier * 2^(shift - 31), rounded twice (TFLite MultiplyByQuantizedMultiplier): a positive shift goes left. */
static inline int32_t tw_requantize(int32_t x, int32_t multiplier, int32_t shift)
{
    const int32_t left = shift > 0 ? shift : 0;
    const int32_t right = shift > 0 ? 0 : -shift;
    return tw_rounding_shift(tw_high_mul(tw_shift_left(x, left), multiplier), right);
}

#endif
