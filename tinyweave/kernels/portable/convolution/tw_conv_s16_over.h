/* tw_conv_s16_over.h - the loops of convolutions of int16 maps whose sums are int32, for kernels that differ in how they multiply.
 *
 * In place, without scratch: where the taps of a window's row lie together, they are one run.
 */
#ifndef TW_CONV_S16_OVER_H
#define TW_CONV_S16_OVER_H

#include "tw_conv_s16.h"
#include "tw_multiply_s16.h"

/* Computes the outputs of a pixel; runs: the taps of its window that lie inside the map. */
typedef void tw_pixel_s16(const tw_conv_s16_word *p, tw_runs_s16 runs, int16_t *to);

/* depth: how many weights of a tap follow each other. */
TW_INLINE void tw_conv_2d_s16_each(const tw_conv_s16_word *conv, const int16_t *in, int16_t *to, int32_t depth,
                                   tw_pixel_s16 *pixel)
{
    const tw_conv_s16_base *const p = &conv->base;
    const int together = p->groups == 1 && p->dilation.w == 1;
    tw_runs_s16 runs;
    runs.filter = p->kernel.h * p->kernel.w * depth;
    runs.before = 0;
    runs.x_row = p->dilation.h * p->in.w * p->in.c;
    runs.w_row = p->kernel.w * depth;
    runs.x_run = p->dilation.w * p->in.c;
    for (int32_t y = 0; y < p->out.h; ++y) {
        const int32_t top = y * p->stride.h - p->pad.h;
        const tw_span rows = tw_inside(top, p->kernel.h, p->dilation.h, p->in.h);
        const int16_t *const line = in + (top + rows.begin * p->dilation.h) * p->in.w * p->in.c;
        runs.rows = rows.end - rows.begin;
        for (int32_t x = 0; x < p->out.w; ++x) {
            const int32_t left = x * p->stride.w - p->pad.w;
            const tw_span cols = tw_inside(left, p->kernel.w, p->dilation.w, p->in.w);
            const int32_t taps = cols.end - cols.begin;
            runs.x = line + (left + cols.begin * p->dilation.w) * p->in.c;
            runs.weights = p->weights + (rows.begin * p->kernel.w + cols.begin) * depth;
            runs.runs = together ? 1 : taps;
            runs.count = together ? taps * depth : depth;
            pixel(conv, runs, to);
            to += p->out.c;
        }
    }
}

/* Writes the outputs of at most four filters from `channel` on. */
typedef void tw_put_s16(const tw_conv_s16_word *p, int32_t channel, tw_sums_s16 sums, int32_t filters, int16_t *to);

/* A tw_pixel_s16 of up to four filters at a time. */
TW_INLINE void tw_conv_2d_s16_pixel(const tw_conv_s16_word *p, tw_runs_s16 runs, int16_t *to, tw_multiply_s16 *multiply,
                                    tw_put_s16 *put)
{
    const int32_t group_out = p->base.out.c / p->base.groups, depth = p->base.in.c / p->base.groups;
    for (int32_t channel = 0, end = group_out; channel < p->base.out.c; end += group_out, runs.x += depth) {
        for (int32_t filters; channel < end; channel += filters) {
            filters = tw_min(end - channel, TW_FILTERS_S16);
            put(p, channel, multiply(&runs, filters), filters, to + channel);
            runs.weights += filters * runs.filter;
            runs.before += filters;
        }
    }
}

#endif
