/* tw_binary.h - ops on two operands with broadcasting: parameters and loops. An axis of extent 1 repeats along the whole axis
 * of the output.
 */
#ifndef TW_BINARY_H
#define TW_BINARY_H

#include "tw.h"

typedef struct {
    tw_extents a, b, out;              /* each axis of a and b is that of out, or 1 */
    int32_t a_zero, b_zero, out_zero;  /* zero points */
    int32_t out_min, out_max;          /* the clamp of the fused activation, within the type of the output */
    int32_t left_shift;                /* of both operands before they are rescaled */
    int32_t a_multiplier, a_shift;     /* Q31; a positive shift goes left */
    int32_t b_multiplier, b_shift;
    int32_t b_sign;                    /* 1: a + b, -1: a - b */
    int32_t out_multiplier, out_shift;
} tw_add;

typedef struct {
    tw_extents a, b, out;  /* each axis of a and b is that of out, or 1 */
    int32_t larger;        /* 1: the larger, 0: the smaller */
} tw_extremum;

typedef struct {
    tw_extents a, b, out;           /* each axis of a and b is that of out, or 1 */
    int32_t a_zero, b_zero;         /* zero points */
    int32_t left_shift;             /* of both operands before they are rescaled */
    int32_t a_multiplier, a_shift;  /* Q31; a positive shift goes left */
    int32_t b_multiplier, b_shift;
    int32_t holds;                  /* a sum of 1: where a < b, 2: where a == b, 4: where a > b */
} tw_compare;

typedef struct {
    tw_extents condition, a, b, out;  /* each axis of the operands is that of out, or 1 */
    int32_t bytes;                    /* of an element of a, b and out */
} tw_select;

typedef struct {
    tw_extents a, b, out;              /* each axis of a and b is that of out, or 1 */
    int32_t a_zero, b_zero, out_zero;  /* zero points */
    int32_t out_min, out_max;          /* the clamp of the fused activation, within -128 .. 127 */
    int32_t multiplier, shift;         /* of the product or quotient; Q31, a positive shift goes left */
} tw_mul;

typedef struct {
    tw_extents a, b, out;                           /* the input and the slopes; each axis of b is that of out, or 1 */
    int32_t a_zero, b_zero, out_zero;               /* zero points */
    int32_t positive_multiplier, positive_shift;    /* of the input; Q31, a positive shift goes left */
    int32_t negative_multiplier, negative_shift;    /* of its product with the slope */
} tw_prelu;

/* The sum of two elements. */
static inline int32_t tw_add_element(const tw_add *p, int32_t a, int32_t b)
{
    const int32_t scaled_a = tw_requantize(tw_shift_left(a - p->a_zero, p->left_shift), p->a_multiplier, p->a_shift);
    const int32_t scaled_b = tw_requantize(tw_shift_left(b - p->b_zero, p->left_shift), p->b_multiplier, p->b_shift);
    const int32_t scaled = tw_requantize(scaled_a + p->b_sign * scaled_b, p->out_multiplier, p->out_shift);
    return tw_clamp(scaled, p->out_min - p->out_zero, p->out_max - p->out_zero) + p->out_zero;
}

/* The product of two elements. */
static inline int32_t tw_mul_element(const tw_mul *p, int32_t a, int32_t b)
{
    const int32_t scaled = tw_requantize((a - p->a_zero) * (b - p->b_zero), p->multiplier, p->shift);
    return tw_clamp(scaled, p->out_min - p->out_zero, p->out_max - p->out_zero) + p->out_zero;
}

/* An operand moves by `col` elements per output column and by `channel` per output channel. */
typedef struct { int32_t col, channel; } tw_steps;

static inline tw_steps tw_broadcast_steps(tw_extents operand, tw_extents out)
{
    tw_steps steps = {operand.w == 1 ? 0 : operand.c, operand.c < out.c ? 0 : 1};
    return steps;
}

/* How many columns of a range are one run: all when no operand repeats in a row, else 1. */
static inline int32_t tw_broadcast_together(tw_extents a, tw_extents b, tw_extents out, tw_range range)
{
    const int whole = a.w == out.w && b.w == out.w && a.c == out.c && b.c == out.c;
    return whole ? tw_max(range.col_end - range.col_begin, 1) : 1;
}

/* What the output element at row `row` of tw_fold(out), column `col`, channel 0 reads of an operand; a pixel of that has
 * `pixel` bytes. */
static inline const int8_t *tw_broadcast_from(const tw_view *view, tw_extents operand, tw_extents out, int32_t row, int32_t col,
                                              int32_t pixel)
{
    const int32_t n = row / out.h;
    const int32_t y = row - n * out.h;
    const int32_t from = (operand.n == 1 ? 0 : n * operand.h) + (operand.h == 1 ? 0 : y);
    return (const int8_t *)tw_pixel(view, from, operand.w == 1 ? view->first_col : col, pixel);
}

/* The same of an int8 operand. */
static inline const int8_t *tw_broadcast_pixel(const tw_view *view, tw_extents operand, tw_extents out, int32_t row,
                                               int32_t col)
{
    return tw_broadcast_from(view, operand, out, row, col, operand.c);
}

/* The range of an op on two operands, whose parameters `p` begin with their extents and the output's. Runs RUN for each run of
 * `count` elements: the operands begin at from_a and from_b and move by their steps, 0 or 1 per element; the output at `to`. */
#define TW_EACH_RUN(p, a, b, out, range, RUN)                                                                   \
    do {                                                                                                        \
        const tw_steps a_steps = tw_broadcast_steps((p)->a, (p)->out);                                          \
        const tw_steps b_steps = tw_broadcast_steps((p)->b, (p)->out);                                          \
        const int32_t together = tw_broadcast_together((p)->a, (p)->b, (p)->out, range);                        \
        for (int32_t row = (range).row_begin; row < (range).row_end; ++row) {                                   \
            const int8_t *from_a = tw_broadcast_pixel(&(a), (p)->a, (p)->out, row, (range).col_begin);        \
            const int8_t *from_b = tw_broadcast_pixel(&(b), (p)->b, (p)->out, row, (range).col_begin);        \
            int8_t *to = (int8_t *)tw_pixel(&(out), row, (range).col_begin, (p)->out.c);                        \
            for (int32_t col = (range).col_begin; col < (range).col_end; col += together) {                     \
                RUN;                                                                                            \
                from_a += together * a_steps.col;                                                               \
                from_b += together * b_steps.col;                                                               \
                to += together * (p)->out.c;                                                                    \
            }                                                                                                   \
        }                                                                                                       \
    } while (0)

/* Defines the form of a kernel for whole maps by its _part form; shapes: the parameters that begin with the extents. */
#define TW_WHOLE_BROADCAST(kernel, params, shapes)                                             \
    void kernel(const params *p, const void *a, const void *b, void *out)                      \
    {                                                                                          \
        kernel##_part(p, tw_whole(a, tw_fold((shapes)->a)), tw_whole(b, tw_fold((shapes)->b)), \
                      tw_whole(out, tw_fold((shapes)->out)), tw_all(tw_fold((shapes)->out)));  \
    }

/* Defines both forms of an int8 kernel that computes a run of elements by run(p, a, its step, b, its step, to, count). */
#define TW_BINARY_FORMS(kernel, params, run)                                                                                 \
    void kernel##_part(const params *p, tw_view a, tw_view b, tw_view out, tw_range range)                                   \
    {                                                                                                                        \
        TW_EACH_RUN(p, a, b, out, range, run(p, from_a, a_steps.channel, from_b, b_steps.channel, to, together * p->out.c)); \
    }                                                                                                                        \
    TW_WHOLE_BROADCAST(kernel, params, p)

/* Defines both forms of an int8 kernel: VALUE is an element of the output from the elements x of a and y of b. */
#define TW_EACH_S8_FORM(kernel, params, VALUE)                                                                      \
    static void kernel##_run(const params *given, const int8_t *a, int32_t a_step, const int8_t *b, int32_t b_step, \
                             int8_t *to, int32_t count)                                                             \
    {                                                                                                               \
        const params local = *given, *const p = &local; /* stores through `to` might change *given */               \
        for (int32_t i = 0; i < count; ++i) {                                                                       \
            const int32_t x = *a, y = *b;                                                                           \
            *to++ = (int8_t)(VALUE);                                                                                \
            a += a_step;                                                                                            \
            b += b_step;                                                                                            \
        }                                                                                                           \
    }                                                                                                               \
    TW_BINARY_FORMS(kernel, params, kernel##_run)

/* Defines a kernel on a whole int16 map a and a map b that computes a run of elements by run(p, a, its step, b, its step, to,
 * count); shapes: the parameters that begin with the extents. */
#define TW_RUNS_S16_FORM(kernel, params, shapes, b_type, to_type, run)                                                \
    void kernel(const params *p, const void *a, const void *b, void *out)                                             \
    {                                                                                                                 \
        const tw_extents of_a = (shapes)->a, of_b = (shapes)->b, of = (shapes)->out;                                  \
        const tw_view in_a = tw_whole_of(a, tw_fold(of_a), 2), in_b = tw_whole_of(b, tw_fold(of_b), sizeof(b_type));  \
        const tw_steps a_steps = tw_broadcast_steps(of_a, of), b_steps = tw_broadcast_steps(of_b, of);                \
        const int32_t together = tw_broadcast_together(of_a, of_b, of, tw_all(tw_fold(of))), count = together * of.c; \
        const int32_t b_pixel = of_b.c * (int32_t)sizeof(b_type);                                                     \
        to_type *to = (to_type *)out;                                                                                 \
        for (int32_t row = 0; row < of.n * of.h; ++row) {                                                             \
            const int16_t *x = (const int16_t *)(const void *)tw_broadcast_from(&in_a, of_a, of, row, 0, 2 * of_a.c); \
            const b_type *y = (const b_type *)(const void *)tw_broadcast_from(&in_b, of_b, of, row, 0, b_pixel);      \
            for (int32_t col = 0; col < of.w; col += together) {                                                      \
                run(p, x, a_steps.channel, y, b_steps.channel, to, count);                                            \
                x += together * a_steps.col;                                                                          \
                y += together * b_steps.col;                                                                          \
                to += count;                                                                                          \
            }                                                                                                         \
        }                                                                                                             \
    }

/* Defines a kernel on a whole int16 map a and a map b: VALUE is an element of the output from the elements x of a and y of b. */
#define TW_EACH_S16_FORM(kernel, params, b_type, to_type, VALUE)                                                        \
    static inline void kernel##_run(const params *p, const int16_t *a, int32_t a_step, const b_type *b, int32_t b_step, \
                                    to_type *to, int32_t count)                                                         \
    {                                                                                                                   \
        for (int32_t i = 0; i < count; ++i, a += a_step, b += b_step) {                                                 \
            const int32_t x = *a, y = *b;                                                                               \
            to[i] = (to_type)(VALUE);                                                                                   \
        }                                                                                                               \
    }                                                                                                                   \
    TW_RUNS_S16_FORM(kernel, params, p, b_type, to_type, kernel##_run)

/* Defines a kernel on two whole int16 maps: value(p, x, y) is an element of the output, less its zero point, not yet clamped. */
#define TW_BINARY_S16_FORM(kernel, params, value)      \
    TW_EACH_S16_FORM(kernel, params, int16_t, int16_t, \
                     tw_clamp(value(p, x, y), p->out_min - p->out_zero, p->out_max - p->out_zero) + p->out_zero)

/* Defines both forms of an int8 kernel on two maps of the output's shape, that of the parameters p. Runs RUN for each row:
 * `count` elements from from_a and from_b, and the output at `to`. */
#define TW_ALIKE_FORMS(kernel, params, RUN)                                                                        \
    void kernel##_part(const params *p, tw_view a, tw_view b, tw_view out, tw_range range)                         \
    {                                                                                                              \
        const int32_t channels = p->shape.c, count = (range.col_end - range.col_begin) * channels;                 \
        for (int32_t row = range.row_begin; row < range.row_end; ++row) {                                          \
            int8_t *to = (int8_t *)tw_pixel(&out, row, range.col_begin, channels);                                 \
            const int8_t *from_a = (const int8_t *)tw_pixel(&a, row, range.col_begin, channels);                   \
            const int8_t *from_b = (const int8_t *)tw_pixel(&b, row, range.col_begin, channels);                   \
            RUN;                                                                                                   \
        }                                                                                                          \
    }                                                                                                              \
    void kernel(const params *p, const void *a, const void *b, void *out)                                          \
    {                                                                                                              \
        kernel##_part(p, tw_whole(a, p->shape), tw_whole(b, p->shape), tw_whole(out, p->shape), tw_all(p->shape)); \
    }

/* Each _part form computes a range of tw_fold(out) between views. */

/* int8 sum or difference with broadcasting. No scratch; out may alias an operand of the same extents. */
TW_DECLARE_BINARY_FORMS(tw_add_s8, tw_add);


/* int16 sum or difference with broadcasting. As tw_add_s8, zero points and clamps being those of int16. No scratch; out
 * may alias an operand of its extents. */
void tw_add_s16(const tw_add *p, const void *a, const void *b, void *out);

/* The same with the Arm MVE extension; zero points are 0. */
void tw_add_s16_mve(const tw_add *p, const void *a, const void *b, void *out);

/* The square of an int8 difference with broadcasting: left_shift is 7, and b_sign does not matter. No scratch; out may
 * alias an operand of the same extents. */
TW_DECLARE_BINARY_FORMS(tw_squared_difference_s8, tw_add);

/* int8 product with broadcasting. No scratch; out may alias an operand of the same extents. */
TW_DECLARE_BINARY_FORMS(tw_mul_s8, tw_mul);

/* int16 product with broadcasting, zero points and clamps being those of int16. No scratch; out may alias an operand of its
 * extents. */
void tw_mul_s16(const tw_mul *p, const void *a, const void *b, void *out);

/* The same with the Arm MVE extension; zero points are 0. */
void tw_mul_s16_mve(const tw_mul *p, const void *a, const void *b, void *out);

/* int8 quotient a / b with broadcasting: multiplier and shift are those of the quotient. a / 0 is the lowest or the highest output
 * by the sign of a, 0 / 0 is the output's zero point. No scratch; out may alias an operand of the same extents. */
TW_DECLARE_BINARY_FORMS(tw_div_s8, tw_mul);

/* The smaller or the larger of two int8 operands, or bools, with broadcasting. No scratch; out may alias an operand of the same
 * extents. */
TW_DECLARE_BINARY_FORMS(tw_extremum_s8, tw_extremum);

/* Whether two int8 operands compare as asked, with broadcasting: 0 or 1. No scratch; out may alias an operand of the same
 * extents. */
TW_DECLARE_BINARY_FORMS(tw_compare_s8, tw_compare);

/* The same for int16 operands, whose zero points are 0. */
void tw_extremum_s16(const tw_extremum *p, const void *a, const void *b, void *out);
void tw_compare_s16(const tw_compare *p, const void *a, const void *b, void *out);

/* Elements of a where the condition is not 0, else of b, with broadcasting. No scratch; out must not overlap an operand. */
void tw_select_v2(const tw_select *p, const void *condition, const void *a, const void *b, void *out);

/* int8 leaky relu whose slope is an operand with broadcasting. No scratch; out may alias an operand of the same
 * extents. */
TW_DECLARE_BINARY_FORMS(tw_prelu_s8, tw_prelu);

/* The same on int16, whose zero points are 0, with int8 slopes. */
void tw_prelu_s16(const tw_prelu *p, const void *a, const void *b, void *out);

#endif
