/* tw.h - views of feature maps and fixed-point arithmetic, shared by all tinyweave kernels.
 *
 * A kernel computes the output rows and columns of one `tw_range`, reading and writing through `tw_view`s. A view is a
 * whole feature map or a ring of its rows (a rolling buffer), so that layer-by-layer and fused execution use the same
 * kernels. C99 and C++, no heap, no globals but constants, no libc beyond memcpy, memmove and memset.
 */
#ifndef TW_H
#define TW_H

#include <stdint.h>

/* Kernels read several int8 values as one word. Compilers say the order of its bytes by one of these macros; a compiler that
 * says nothing is taken to be little-endian. */
#if (defined(__BYTE_ORDER__) && defined(__ORDER_BIG_ENDIAN__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) || \
    (defined(__ICCARM__) && defined(__LITTLE_ENDIAN__) && __LITTLE_ENDIAN__ == 0) || \
    defined(__BIG_ENDIAN__) || defined(__ARM_BIG_ENDIAN) || defined(__ARMEB__) || defined(__MIPSEB__)
#error "this target is big-endian, and the kernels of tinyweave read words of little-endian ones: compile for little-endian"
#endif
#if defined(__SIZEOF_INT__) && __SIZEOF_INT__ < 4
#error "int has fewer than 32 bits on this target, as on AVR, and the kernels of tinyweave compute with 32: take a 32-bit core"
#endif

/* The version of tinyweave, 10203 for 1.2.3. A model's C asks for its own, because parameters change from one to another. */
#define TW_VERSION 10000

typedef struct { int32_t h, w, c; } tw_shape;
typedef struct { int32_t n, h, w, c; } tw_extents;
typedef struct { int32_t h, w; } tw_size;

/* For loops that take functions and constants: inlined, so that each kernel gets loops of its own. */
#if defined(__GNUC__)
#define TW_INLINE static inline __attribute__((always_inline))
#else
#define TW_INLINE static inline
#endif

/* For functions whose loops need all registers. */
#if defined(__GNUC__)
#define TW_NOT_INLINE static __attribute__((noinline))
#else
#define TW_NOT_INLINE static
#endif

/* Rows [row_begin, row_end) x columns [col_begin, col_end) of a feature map. */
typedef struct { int32_t row_begin, row_end, col_begin, col_end; } tw_range;

/* A feature map, or the part of it that is in memory.
 * Map row r lies in slot r - first_row, wrapped once into [0, ring_height); a whole map has ring_height >= its height.
 * In a slot, map column x begins (x - first_col) pixels from the slot's start. */
typedef struct {
    void *data;          /* slot 0 */
    int32_t row_stride;  /* bytes from a slot to the next */
    int32_t ring_height; /* slots */
    int32_t first_row;   /* the map row in slot 0 */
    int32_t first_col;   /* the map column at the start of a slot */
} tw_view;

/* The data pointer of a view. Inputs and outputs share one type of view; kernels only read their inputs. */
static inline void *tw_viewed(const void *data) { return (void *)(uintptr_t)data; }

/* The view of a whole feature map at `data`, of elements of `bytes` bytes. */
static inline tw_view tw_whole_of(const void *data, tw_shape shape, int32_t bytes)
{
    tw_view view = {tw_viewed(data), shape.w * shape.c * bytes, shape.h, 0, 0};
    return view;
}

/* The same of one-byte elements. */
static inline tw_view tw_whole(const void *data, tw_shape shape) { return tw_whole_of(data, shape, 1); }

/* Four axes as a feature map: the rows of all n one after the other. */
static inline tw_shape tw_fold(tw_extents extents)
{
    tw_shape shape = {extents.n * extents.h, extents.w, extents.c};
    return shape;
}

/* Every row and column of a feature map. */
static inline tw_range tw_all(tw_shape shape)
{
    tw_range range = {0, shape.h, 0, shape.w};
    return range;
}

/* The slot that map row `row` is in. The row must be within ring_height - 1 rows of first_row. */
static inline int32_t tw_slot(const tw_view *view, int32_t row)
{
    const int32_t slot = row - view->first_row;
    if (slot < 0) {
        return slot + view->ring_height;
    }
    return slot >= view->ring_height ? slot - view->ring_height : slot;
}

/* Where the pixel at map row `row`, map column `col` lies, in bytes from the view's data; a pixel has `bytes` bytes. */
static inline int32_t tw_offset(const tw_view *view, int32_t row, int32_t col, int32_t bytes)
{
    return tw_slot(view, row) * view->row_stride + (col - view->first_col) * bytes;
}

/* The address of the pixel at map row `row`, map column `col`. */
static inline void *tw_pixel(const tw_view *view, int32_t row, int32_t col, int32_t bytes)
{
    return (uint8_t *)view->data + tw_offset(view, row, col, bytes);
}

/* An offset moved down by `step` bytes, whole rows, in a ring of `ring` bytes. */
static inline int32_t tw_down(int32_t offset, int32_t step, int32_t ring)
{
    offset += step;
    return offset >= ring ? offset - ring : offset;
}

static inline int32_t tw_min(int32_t a, int32_t b) { return a < b ? a : b; }
static inline int32_t tw_max(int32_t a, int32_t b) { return a > b ? a : b; }
static inline int32_t tw_clamp(int32_t x, int32_t low, int32_t high) { return tw_min(tw_max(x, low), high); }

/* Whether 0 <= i < size. */
static inline int tw_is_in(int32_t i, int32_t size) { return (uint32_t)i < (uint32_t)size; }

/* [begin, end) */
typedef struct { int32_t begin, end; } tw_span;

/* Progress of a layer in a fused stage: its next iteration is due at tick `due`, later ones every `every` ticks. The last
 * iteration computed rows [begin, end). */
typedef struct { int32_t due, every, rows_per_iteration, begin, end, rows; } tw_timing;

/* Whether an iteration is due at this tick. If so, advances `timing` to the rows that tw_row returns and moves the ring of
 * `out` to have slots for them. */
static inline int tw_is_due(tw_timing *timing, int32_t tick, tw_view *out)
{
    if (tick != timing->due || timing->end == timing->rows) {
        return 0;
    }
    timing->due += timing->every;
    timing->begin = timing->end;
    timing->end = tw_min(timing->begin + timing->rows_per_iteration, timing->rows);
    if (timing->end > out->first_row + out->ring_height) {
        out->first_row += out->ring_height;
    }
    return 1;
}

/* Columns [col_begin, col_end) of the rows of the last iteration. */
static inline tw_range tw_row(const tw_timing *timing, int32_t col_begin, int32_t col_end)
{
    tw_range range = {timing->begin, timing->end, col_begin, col_end};
    return range;
}

/* Those of `taps` window positions first, first + step, ... that lie in [0, size). */
static inline tw_span tw_inside(int32_t first, int32_t taps, int32_t step, int32_t size)
{
    tw_span span = {0, taps};
    if (first < 0) {
        span.begin = tw_min((step - 1 - first) / step, taps);
    }
    if (first + (taps - 1) * step >= size) {
        span.end = first >= size ? 0 : (size - 1 - first) / step + 1;
    }
    return span;
}

/* x * 2^exponent modulo 2^32. */
static inline int32_t tw_shift_left(int32_t x, int32_t exponent) { return (int32_t)((uint32_t)x << exponent); }

/* Cores that multiply 32 bits by 32 bits to 64 only in a function of the compiler's library. */
#if defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)
#define TW_NO_LONG_PRODUCTS
#endif

/* a * b / 2^31, rounded half up (gemmlowp SaturatingRoundingDoublingHighMul); a and b must not both be INT32_MIN. */
static inline int32_t tw_high_mul(int32_t a, int32_t b)
{
#ifdef TW_NO_LONG_PRODUCTS
    /* from four products of halves; bits 14 and 15 of `lower` are bits 30 and 31 of the product */
    const int32_t a_low = a & 0xFFFF, a_high = a >> 16, b_low = b & 0xFFFF, b_high = b >> 16;
    const int32_t upper = a_high * b_low + (int32_t)((uint32_t)a_low * (uint32_t)b_low >> 16);
    const int32_t lower = a_low * b_high + (upper & 0xFFFF);
    return tw_shift_left(a_high * b_high + (upper >> 16), 1) + ((lower + 0x4000) >> 15);
#else
    return (int32_t)(((int64_t)a * b + ((int64_t)1 << 30)) >> 31);
#endif
}

/* x / 2^exponent, rounded half away from zero (gemmlowp RoundingDivideByPOT); 1 <= exponent <= 31,
 * INT32_MIN < x, and x < INT32_MAX where exponent is 1, as high products are. */
static inline int32_t tw_rounding_shift(int32_t x, int32_t exponent)
{
    /* half of 2^exponent is added as a 1 after all but one of the shifts: before them the sum could overflow */
    return (((x + (x >> 31)) >> (exponent - 1)) + 1) >> 1;
}

/* sum + bias[channel] modulo 2^32; bias may be a null pointer. */
static inline int32_t tw_add_bias(int32_t sum, const int32_t *bias, int32_t channel)
{
    return bias ? (int32_t)((uint32_t)sum + (uint32_t)bias[channel]) : sum;
}

/* x * multiplier * 2^(shift - 31), rounded twice (TFLite MultiplyByQuantizedMultiplier): a positive shift goes left;
 * -31 <= shift <= 30, |multiplier| < 2^31. */
static inline int32_t tw_requantize(int32_t x, int32_t multiplier, int32_t shift)
{
    const int32_t left = shift & ~(shift >> 31); /* max(shift, 0), the product computed once for both cases */
    const int32_t high = tw_high_mul(tw_shift_left(x, left), multiplier);
    return shift < 0 ? tw_rounding_shift(high, -shift) : high;
}

/* a * b. */
static inline uint64_t tw_long_product(uint32_t a, uint32_t b)
{
#ifdef TW_NO_LONG_PRODUCTS
    const uint32_t a_low = a & 0xFFFF, a_high = a >> 16, b_low = b & 0xFFFF, b_high = b >> 16;
    const uint32_t upper = a_high * b_low + (a_low * b_low >> 16), lower = a_low * b_high + (upper & 0xFFFF);
    return (uint64_t)(a_high * b_high + (upper >> 16) + (lower >> 16)) << 32 | a * b;
#else
    return (uint64_t)a * b;
#endif
}

/* x * multiplier * 2^(shift - 63), rounded once, half away from zero; 0 <= multiplier < 2^63, -32 <= shift <= 29. Results beyond
 * +-2^28 may be others beyond +-2^28: all are clamped to at most 16 bits.
 * What LiteRT computes in double, in integers: of the multiplier's low half only the product's high word counts. */
static inline int32_t tw_requantize_once(int32_t x, int64_t multiplier, int32_t shift)
{
    if (shift > -2) {
        const int32_t moved = tw_shift_left(x, shift + 2);
        x = moved >> (shift + 2) == x ? moved : x >> 31 ^ INT32_MAX;
        shift = -2;
    }
    const uint32_t sign = (uint32_t)(x >> 31), magnitude = ((uint32_t)x ^ sign) - sign;
    const uint64_t product = tw_long_product(magnitude, (uint32_t)(multiplier >> 32));
    uint32_t rest = (uint32_t)product, high = (uint32_t)(product >> 32); /* rest is rounded away */
    if (rest > ~magnitude) { /* it hardly ever carries: the product with the low half is below magnitude */
        high += rest + (uint32_t)(tw_long_product(magnitude, (uint32_t)multiplier) >> 32) < rest;
    }
    return (int32_t)(((((high >> (-2 - shift)) + 1) >> 1) ^ sign) - sign);
}

/* Adds to sums the dot products of `count` inputs less `zero`, from input first_in of a pixel on, with the weights of 1 to 4
 * filters, from weight `first` on; a filter has `filter` bytes. */
typedef void tw_products(const int8_t *pixel, int32_t first_in, int32_t zero, const int8_t *weights, int32_t filter, int32_t first,
                         int32_t count, int32_t filters, int32_t *sums);

/* The range of an op on one operand of the output's shape, that of the parameters `p`: to[i] is the VALUE for from[i]. */
#define TW_EACH_ELEMENT(p, in, from_type, out, to_type, range, VALUE)                                                    \
    do {                                                                                                                 \
        const int32_t count = ((range).col_end - (range).col_begin) * (p)->shape.c;                                      \
        for (int32_t y = (range).row_begin; y < (range).row_end; ++y) {                                                  \
            const from_type *from = (const from_type *)tw_pixel(&(in), y, (range).col_begin,                             \
                                                                (p)->shape.c * (int32_t)sizeof(from_type));              \
            to_type *to = (to_type *)tw_pixel(&(out), y, (range).col_begin, (p)->shape.c * (int32_t)sizeof(to_type));    \
            for (int32_t i = 0; i < count; ++i) {                                                                        \
                to[i] = (to_type)(VALUE);                                                                                \
            }                                                                                                            \
        }                                                                                                                \
    } while (0)

/* RUN(fix) if `sign` asks for negative halves to round away from zero, else RUN(no_fix). */
#define TW_BY_SIGN(sign, RUN, fix, no_fix) \
    do {                                   \
        if (sign) {                        \
            RUN(fix);                      \
        } else {                           \
            RUN(no_fix);                   \
        }                                  \
    } while (0)

/* Declares both forms of a kernel: for whole maps, and with suffix _part for a range of the output between views. Of
 * TW_DECLARE_ROW_FORMS the third form, with suffix _rows, adds whole rows of the input to sums[out.c], which row 0 sets up, and
 * writes the outputs with the last row. */
#define TW_DECLARE_FORMS(kernel, params)                     \
    void kernel(const params *p, const void *in, void *out); \
    void kernel##_part(const params *p, tw_view in, tw_view out, tw_range range)
#define TW_DECLARE_ROW_FORMS(kernel, params) \
    TW_DECLARE_FORMS(kernel, params);        \
    void kernel##_rows(const params *p, tw_view in, void *out, tw_range range, int32_t *sums)
#define TW_DECLARE_SCRATCH_FORMS(kernel, params)                            \
    void kernel(const params *p, const void *in, void *out, void *scratch); \
    void kernel##_part(const params *p, tw_view in, tw_view out, tw_range range, void *scratch)
#define TW_DECLARE_BINARY_FORMS(kernel, params)                            \
    void kernel(const params *p, const void *a, const void *b, void *out); \
    void kernel##_part(const params *p, tw_view a, tw_view b, tw_view out, tw_range range)

/* Defines the form of a kernel for whole maps by its _part form: p are the parameters, in and out the maps, whose views and the
 * output's shape are given; the second one for a kernel with scratch. */
#define TW_WHOLE_FORM(kernel, params, in_view, out_view, shape) \
    void kernel(const params *p, const void *in, void *out)     \
    {                                                           \
        kernel##_part(p, in_view, out_view, tw_all(shape));     \
    }
#define TW_WHOLE_FORM_SCRATCH(kernel, params, in_view, out_view, shape)    \
    void kernel(const params *p, const void *in, void *out, void *scratch) \
    {                                                                      \
        kernel##_part(p, in_view, out_view, tw_all(shape), scratch);       \
    }

/* The same and the _part form, which runs PART: p are the parameters, in and out views of the maps, range is the output's. */
#define TW_FORMS(kernel, params, in_view, out_view, shape, PART)                 \
    void kernel##_part(const params *p, tw_view in, tw_view out, tw_range range) \
    {                                                                            \
        PART;                                                                    \
    }                                                                            \
    TW_WHOLE_FORM(kernel, params, in_view, out_view, shape)

/* Both forms of a kernel on one operand of the output's shape, that of the parameters p: the VALUE for from[i]. */
#define TW_ELEMENTWISE_FORMS(kernel, params, from_type, to_type, VALUE)                                                 \
    TW_FORMS(kernel, params, tw_whole_of(in, p->shape, sizeof(from_type)), tw_whole_of(out, p->shape, sizeof(to_type)), \
             p->shape, TW_EACH_ELEMENT(p, in, from_type, out, to_type, range, VALUE))

/* Both forms of an int8 kernel on one operand of the output's shape that computes a pixel by pixel(p, from, to); shapes: the
 * parameters that begin with the shape. */
#define TW_PIXEL_FORMS(kernel, params, shapes, pixel)                                         \
    void kernel##_part(const params *p, tw_view in, tw_view out, tw_range range)              \
    {                                                                                         \
        const int32_t channels = (shapes)->shape.c;                                           \
        for (int32_t y = range.row_begin; y < range.row_end; ++y) {                           \
            const int8_t *from = (const int8_t *)tw_pixel(&in, y, range.col_begin, channels); \
            int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, channels);              \
            for (int32_t x = range.col_begin; x < range.col_end; ++x) {                       \
                pixel(p, from, to);                                                           \
                from += channels;                                                             \
                to += channels;                                                               \
            }                                                                                 \
        }                                                                                     \
    }                                                                                         \
    TW_WHOLE_FORM(kernel, params, tw_whole(in, (shapes)->shape), tw_whole(out, (shapes)->shape), (shapes)->shape)

#endif
