/* tw_mean.h - the loops of int8 mean kernels: four neighbouring outputs at a time. */
#ifndef TW_MEAN_H
#define TW_MEAN_H

#include "tw_reduction.h"
#include "tw_sums.h"

/* Returns the output of a sum of reduced elements less their zero points. */
static inline int8_t tw_mean_finish(const tw_mean *p, int32_t sum)
{
    const int32_t scaled = tw_requantize(sum, p->multiplier, p->shift);
    return (int8_t)(tw_clamp(scaled, -128 - p->out_zero, 127 - p->out_zero) + p->out_zero);
}

/* Elements that are reduced: `rows` runs, `outer` bytes apart, of `cols` elements, `inner` bytes apart. Sums begin at `first`. */
typedef struct { int32_t rows, outer, cols, inner, first; } tw_mean_runs;

/* Computes the outputs of `inner` neighbouring elements; returns the place behind them. */
typedef int8_t *tw_mean_outputs(const tw_mean *p, const int8_t *from, const tw_mean_runs *runs, int8_t *to);

/* A tw_mean_outputs. */
TW_INLINE int8_t *tw_mean_of_runs(const tw_mean *p, const int8_t *from, const tw_mean_runs *runs, int8_t *to)
{
    const int32_t first = runs->first;
    const tw_mean local = *p; /* a store of an int8_t could change *p */
    for (int32_t k = 0; k < runs->inner; k += 4) {
        const int32_t channels = tw_min(runs->inner - k, 4);
        int32_t sums[4] = {first, first, first, first};
        const int8_t *x = from + k;
        for (int32_t r = 0; r < runs->rows; ++r) {
            tw_sums_add_four(sums, channels, x + r * runs->outer, runs->inner, runs->cols);
        }
        for (int32_t channel = 0; channel < channels; ++channel) {
            *to++ = tw_mean_finish(&local, sums[channel]);
        }
    }
    return to;
}

TW_INLINE void tw_mean_over(const tw_mean *p, const void *in, void *out, tw_mean_outputs *outputs)
{
    /* where only pixels are added, [reduced[0]][kept[1]] is taken for [1][1][reduced[0]][kept[1]] */
    const int pixels = p->reduced[1] == 1 && p->kept[2] == 1;
    const int32_t times = pixels ? 1 : p->kept[1], cols = pixels ? p->reduced[0] : p->reduced[1];
    const int32_t inner = pixels ? p->kept[1] : p->kept[2], middle = cols * inner; /* from an element of `times` to the next */
    const int32_t rows = pixels ? 1 : p->reduced[0];
    const tw_mean_runs runs = {rows, times * middle, cols, inner, -p->in_zero * rows * cols};
    const int8_t *from = (const int8_t *)in;
    int8_t *to = (int8_t *)out;
    for (int32_t i = 0; i < p->kept[0]; ++i, from += runs.rows * runs.outer) {
        for (int32_t j = 0; j < times; ++j) {
            to = outputs(p, from + j * middle, &runs, to);
        }
    }
}

TW_INLINE void tw_mean_over_part(const tw_mean *p, tw_view in, tw_view out, tw_range range, tw_mean_outputs *outputs)
{
    const int32_t channels = p->kept[1];
    const tw_mean_runs runs = {1, 0, p->reduced[0], channels, -p->in_zero * p->reduced[0]};
    if (range.col_begin >= range.col_end) {
        return;
    }
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *from = (const int8_t *)tw_pixel(&in, y, 0, channels);
        outputs(p, from, &runs, (int8_t *)tw_pixel(&out, y, 0, channels));
    }
}

/* The range of a _rows form: where only rows are added, a row is one pixel. */
static inline tw_range tw_mean_pixels(const tw_mean *p, const tw_view *in, tw_range range)
{
    range.col_end = p->kept[1] == in->row_stride ? 1 : range.col_end;
    return range;
}

/* Whether the range of a _rows form ends with the last row. */
static inline int tw_mean_ends(const tw_mean *p, tw_range range) { return range.row_end * range.col_end == p->reduced[0]; }

/* Writes the outputs if the range ends with the last row. */
TW_INLINE void tw_mean_end(const tw_mean *p, tw_range range, const int32_t *sums, void *out)
{
    for (int32_t channel = 0; tw_mean_ends(p, range) && channel < p->kept[1]; ++channel) {
        ((int8_t *)out)[channel] = tw_mean_finish(p, sums[channel]);
    }
}

TW_INLINE void tw_mean_over_rows(const tw_mean *p, tw_view in, void *out, tw_range rows, int32_t *sums)
{
    const tw_range range = tw_mean_pixels(p, &in, rows);
    tw_sums_add(sums, p->kept[1], &in, range, -p->in_zero * p->reduced[0]);
    tw_mean_end(p, range, sums, out);
}

/* Defines two forms of a kernel by a tw_mean_outputs. */
#define TW_MEAN_WHOLE_FORMS(kernel, outputs)                                                         \
    void kernel(const tw_mean *p, const void *in, void *out) { tw_mean_over(p, in, out, outputs); }  \
    void kernel##_part(const tw_mean *p, tw_view in, tw_view out, tw_range range)                    \
    {                                                                                                \
        tw_mean_over_part(p, in, out, range, outputs);                                               \
    }

/* Defines the three forms of a kernel in plain C. */
#define TW_MEAN_FORMS(kernel)                                                                     \
    TW_MEAN_WHOLE_FORMS(kernel, tw_mean_of_runs)                                                  \
    void kernel##_rows(const tw_mean *p, tw_view in, void *out, tw_range range, int32_t *sums)    \
    {                                                                                             \
        tw_mean_over_rows(p, in, out, range, sums);                                               \
    }

#endif
