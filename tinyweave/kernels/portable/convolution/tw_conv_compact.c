/* tw_conv_compact.c - the loops of compact convolutions, portable C. */
#include "tw_conv_compact.h"

/* The products of a window with one filter, whose taps are `tap` bytes apart, from an input channel on. */
static int32_t products(const tw_conv *p, const tw_view *in, const tw_window *window, int32_t channel, const int8_t *weights,
                        int32_t tap)
{
    const int32_t depth = p->shape.in.c / p->groups, zero = p->shape.in_zero, step = p->shape.dilation.w * p->shape.in.c;
    const int together = tap == depth && step == depth; /* the taps of a row are one run */
    const int32_t run = together ? window->cols * depth : depth, runs = together ? 1 : window->cols;
    int32_t sum = 0, offset = window->offset + channel;

    weights += window->tap * tap;
    for (int32_t row = 0; row < window->rows; ++row) {
        const int8_t *from = (const int8_t *)in->data + offset, *taps = weights;
        for (int32_t left = runs; left > 0; --left) {
            for (int32_t i = 0; i < run; ++i) {
                sum += (from[i] - zero) * taps[i];
            }
            from += step;
            taps += tap;
        }
        weights += p->shape.kernel.w * tap;
        offset = tw_down(offset, window->step, window->ring);
    }
    return sum;
}

void tw_conv_compact(const tw_conv *p, const tw_view *in, const tw_view *out, tw_range range, int32_t filter, int32_t tap)
{
    const int32_t depth = p->shape.in.c / p->groups, filters = p->shape.out.c / p->groups;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *to = (int8_t *)tw_pixel(out, y, range.col_begin, p->shape.out.c);
        tw_window window = tw_window_of(&p->shape, in, y, p->shape.in.c);
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            tw_window_cols(&p->shape, &window, x);
            for (int32_t channel = 0; channel < p->shape.out.c; ++channel) {
                const int32_t first = channel / filters * depth;
                const int32_t sum = products(p, in, &window, first, p->weights + channel * filter, tap);
                tw_conv_finish(p, channel, &sum, 1, to++);
            }
        }
    }
}
