/* tw_broadcast.h - operands that broadcast: an axis of extent 1 repeats along the whole axis of the output. */
#ifndef TW_BROADCAST_H
#define TW_BROADCAST_H

#include "tw.h"

/* How far an operand moves per output column and per output channel, in elements. */
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

/* What the output element at row `row` of tw_fold(out), column `col`, channel 0 reads of an operand; a pixel of that has `pixel`
 * bytes. */
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
#define TW_EACH_RUN(p, a, b, out, range, RUN)                                                                  \
    do {                                                                                                       \
        const tw_steps a_steps = tw_broadcast_steps((p)->a, (p)->out);                                         \
        const tw_steps b_steps = tw_broadcast_steps((p)->b, (p)->out);                                         \
        const int32_t together = tw_broadcast_together((p)->a, (p)->b, (p)->out, range);                       \
        for (int32_t row = (range).row_begin; row < (range).row_end; ++row) {                                  \
            const int8_t *from_a = tw_broadcast_pixel(&(a), (p)->a, (p)->out, row, (range).col_begin);         \
            const int8_t *from_b = tw_broadcast_pixel(&(b), (p)->b, (p)->out, row, (range).col_begin);         \
            int8_t *to = (int8_t *)tw_pixel(&(out), row, (range).col_begin, (p)->out.c);                       \
            for (int32_t col = (range).col_begin; col < (range).col_end; col += together) {                    \
                RUN;                                                                                           \
                from_a += together * a_steps.col;                                                              \
                from_b += together * b_steps.col;                                                              \
                to += together * (p)->out.c;                                                                   \
            }                                                                                                  \
        }                                                                                                      \
    } while (0)

/* Defines the form of a kernel for whole maps by its _part form; view: that of a whole map, shapes: the parameters that begin with
 * the extents. */
#define TW_WHOLE_BROADCAST(kernel, params, view, shapes)                                                       \
    void kernel(const params *p, const void *a, const void *b, void *out)                                      \
    {                                                                                                          \
        kernel##_part(p, view(a, tw_fold((shapes)->a)), view(b, tw_fold((shapes)->b)), view(out, tw_fold((shapes)->out)), \
                      tw_all(tw_fold((shapes)->out)));                                                         \
    }

#endif
