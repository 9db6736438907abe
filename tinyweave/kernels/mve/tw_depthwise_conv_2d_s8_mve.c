/* tw_depthwise_conv_2d_s8_mve.c - int8 depthwise convolution with the Arm MVE extension, sixteen channels at a time.
 * tw_mve_taps.h has the layers, the layout of the weights and the cost.
 *
 * A list holds the offset of each tap: in the map, or of zero points for taps in the padding. If a vector would reach beyond
 * the last pixel, the last channels of each tap are copied to the scratch first.
 */
#include "tw_conv_mve.h"

#include "tw_mve.h"
#include "tw_mve_taps.h"

/* Sets the offset of each tap of a window from its first tap. */
static void place(const tw_conv *p, const tw_window *window, const int8_t *first, const int8_t *zeros, int32_t *tap)
{
    const int32_t step = p->dilation.w * p->in.c, above = window->row_tap / p->kernel.w;
    const int32_t before = window->tap - window->row_tap, below = p->kernel.h - above - window->rows;
    const int32_t outside = tw_mve_outside(zeros, first);
    int32_t offset = 0, row_offset = window->offset;
    for (int32_t i = above * p->kernel.w; i > 0; --i) {
        *tap++ = outside;
    }
    for (int32_t row = window->rows; row > 0; --row) {
        int32_t at = offset;
        for (int32_t i = before; i > 0; --i) {
            *tap++ = outside;
        }
        for (int32_t i = window->cols; i > 0; --i) {
            *tap++ = at;
            at += step;
        }
        for (int32_t i = p->kernel.w - before - window->cols; i > 0; --i) {
            *tap++ = outside;
        }
        const int32_t next = tw_down(row_offset, window->step, window->ring);
        offset += next - row_offset;
        row_offset = next;
    }
    for (int32_t i = below * p->kernel.w; i > 0; --i) {
        *tap++ = outside;
    }
}

/* Copies `count` channels of each tap to a buffer of whole vectors. */
static void copy_taps(const tw_mve_taps *taps, const int8_t *first, int32_t outside, int32_t count, int8_t *to)
{
    for (int32_t i = 0; i < taps->taps; ++i) {
        if (taps->tap[i] == outside) {
            tw_mve_copy(to, taps->zeros, count);
        } else {
            tw_mve_copy(to, first + taps->tap[i], count);
        }
        to += TW_MVE_LANES;
    }
}

/* Whether whole vectors of all taps down to `row` can be read: two further rows follow in memory, the first perhaps with a gap
 * at its end. */
static int may_read_on(const tw_view *in, int32_t h, int32_t row)
{
    return in->first_row == 0 && in->ring_height >= h && row + 2 < h && in->row_stride >= TW_MVE_LANES;
}

/* Computes the outputs of one pixel with any window. */
static void one_pixel(const tw_conv *p, const tw_view *in, const tw_window *window, const tw_mve_taps *taps, int8_t *copy,
                      int reads_on, int8_t *to)
{
    const int32_t channels = p->in.c, whole = reads_on ? channels : channels & -TW_MVE_LANES;
    const int8_t *const first = (const int8_t *)in->data + window->offset;
    place(p, window, first, taps->zeros, taps->tap);
    if (whole > 0) {
        tw_mve_taps_products(taps, first, 0, 1, 0, whole, to);
    }
    if (whole < channels) {
        copy_taps(taps, first + whole, tw_mve_outside(taps->zeros, first), channels - whole, copy);
        for (int32_t i = 0; i < taps->taps; ++i) {
            taps->tap[i] = i * TW_MVE_LANES;
        }
        tw_mve_taps_products(taps, copy, 0, 1, whole, channels, to + whole);
    }
}

void tw_depthwise_conv_2d_s8_mve_part(const tw_depthwise_mve *params, tw_view in, tw_view out, tw_range range, void *scratch)
{
    const tw_conv *p = &params->conv;
    const int32_t channels = p->in.c, stride = p->stride.w, taps = p->kernel.h * p->kernel.w, all = tw_mve_up(channels);
    int32_t *const list = (int32_t *)scratch;
    int8_t *const zeros = (int8_t *)(list + taps), *const copy = zeros + all;
    tw_mve_taps layer = {params->stream, list, zeros, taps, 0, 0, p->out_zero, p->out_min, p->out_max, params->sign};
    copy[taps * TW_MVE_LANES - 1] = 0; /* touches the end of the scratch, which some ranges do not reach */
    tw_mve_fill(zeros, p->in_zero, all);
    const int32_t at_once = stride == 1 && TW_MVE_LANES % channels == 0 ? TW_MVE_LANES / channels : 1; /* pixels */
    const int32_t reach = (p->kernel.w - 1) * p->dilation.w;
    /* no vector may reach beyond the columns that are needed: those of taps in columns up to `last` do not */
    const int32_t needed = tw_min((range.col_end - 1) * stride - p->pad.w + reach + 1, p->in.w);
    const int32_t last = needed - (all + channels - 1) / channels;

    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, channels);
        tw_window window = tw_window_of(p, &in, y, p->in.c);
        const int reads_on = may_read_on(&in, p->in.h, y * p->stride.h - p->pad.h + (p->kernel.h - 1) * p->dilation.h);
        const int32_t inside = (reads_on ? needed - at_once : last) - reach; /* the last column of windows read in place */
        layer.above = window.row_tap;
        layer.below = taps - window.row_tap - window.rows * p->kernel.w;
        int32_t x = range.col_begin;
        while (x < range.col_end) {
            const int32_t left = x * stride - p->pad.w;
            int32_t pixels = 1;
            tw_window_cols(p, &window, x);
            if (left >= 0 && left <= inside) {
                const int8_t *first = (const int8_t *)in.data + window.offset;
                const int32_t times = tw_min(range.col_end - x, (inside - left) / stride + at_once) / at_once;
                place(p, &window, first, zeros, list);
                tw_mve_taps_products(&layer, first, at_once * stride * channels, times, 0, at_once * channels, to);
                pixels = times * at_once;
            } else {
                const int32_t column = left + (window.tap - window.row_tap + window.cols - 1) * p->dilation.w;
                one_pixel(p, &in, &window, &layer, copy, reads_on || column <= last, to);
            }
            x += pixels;
            to += pixels * channels;
        }
    }
}

TW_WHOLE_FORM_SCRATCH(tw_depthwise_conv_2d_s8_mve, tw_depthwise_mve,
                      tw_whole(in, p->conv.in), tw_whole(out, p->conv.out), p->conv.out)
