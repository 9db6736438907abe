/* tw_conv_2d_s8_mve.c - int8 convolution with the Arm MVE extension: 1x1 windows are multiplied in place, others after im2col.
 * tw_mve_pair.h has the layers, the layout of the weights and the cost.
 */
#include "tw_conv_mve.h"

#include "tw_mve.h"
#include "tw_mve_pair.h"
#include "tw_mve_windows.h"

/* Whether the rows of a range are contiguous in memory. */
static int is_together(const tw_view *view, tw_range range, int32_t bytes)
{
    const int32_t first = tw_offset(view, range.row_begin, range.col_begin, bytes);
    const int32_t last = tw_offset(view, range.row_end - 1, range.col_begin, bytes);
    return view->row_stride == (range.col_end - range.col_begin) * bytes
        && last - first == (range.row_end - 1 - range.row_begin) * view->row_stride;
}

/* Computes the outputs of 1x1 windows, `step` bytes apart. They are read in place, but for the last ones if their vectors would
 * reach beyond the last pixel: those are copied first. A few pixels are read byte by byte. */
TW_INLINE void multiply_pixels(const tw_conv_mve *params, const tw_mve_layer *layer, const int8_t *from, int32_t step,
                               int32_t pixels, int8_t *to, int8_t *windows)
{
    const int32_t depth = params->conv.in.c;
    if (pixels * layer->filters <= TW_MVE_FEW_OUTPUTS && tw_mve_few_products(layer, depth, from, step, pixels, to)) {
        return;
    }
    const int32_t spare = (pixels - 1) * step + depth - layer->bytes;
    int32_t direct = spare >= 0 ? tw_min(spare / step + 1, pixels) : 0;
    if (direct < pixels) {
        direct &= ~1;
    }
    if (direct > 0) {
        tw_mve_pair_products(layer, from, step, direct, to);
    }
    while (direct < pixels) {
        const int32_t count = tw_min(pixels - direct, params->windows);
        for (int32_t i = 0; i < count; ++i) {
            tw_copy(windows + i * layer->bytes, from + (direct + i) * step, depth);
        }
        tw_mve_pair_products(layer, windows, layer->bytes, count, to + direct * layer->filters);
        direct += count;
    }
}

/* Computes a range of a convolution with 1x1 windows. */
static void pointwise(const tw_conv_mve *params, const tw_mve_layer *layer, const tw_view *in, const tw_view *out,
                      tw_range range, int8_t *windows)
{
    const tw_conv_shape *p = &params->conv;
    const int32_t step = p->stride.w * p->in.c;
    int32_t pixels = range.col_end - range.col_begin;
    if (p->stride.h == 1 && p->stride.w == 1 && is_together(in, range, p->in.c) && is_together(out, range, p->out.c)) {
        pixels *= range.row_end - range.row_begin;
        range.row_end = range.row_begin + 1;
    }
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *from = (const int8_t *)tw_pixel(in, y * p->stride.h, range.col_begin * p->stride.w, p->in.c);
        multiply_pixels(params, layer, from, step, pixels, (int8_t *)tw_pixel(out, y, range.col_begin, p->out.c), windows);
    }
}

/* Computes a range of a convolution with other windows. */
TW_NOT_INLINE void gathered(const tw_conv_mve *params, const tw_mve_layer *layer, const tw_view *in, const tw_view *out,
                            tw_range range, int8_t *windows)
{
    const tw_conv_shape *p = &params->conv;
    const int32_t goes_on = is_together(out, range, p->out.c), stride = p->stride.w, bytes = layer->bytes;
    int8_t *to = (int8_t *)out->data;
    int32_t waiting = 0; /* gathered windows whose outputs are not computed yet */

    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        if (waiting == 0) {
            to = (int8_t *)tw_pixel(out, y, range.col_begin, p->out.c);
        }
        const tw_window window = tw_window_of(p, in, y, p->in.c);
        const int32_t last = window.rows == p->kernel.h ? p->in.w - p->kernel.w : -1; /* of a window inside the map */
        int32_t x = range.col_begin;
        while (x < range.col_end) {
            const int32_t left = x * stride - p->pad.w;
            int32_t count = 1;
            if (left >= 0 && left <= last) {
                count = tw_min(tw_min(range.col_end - x, (last - left) / stride + 1), params->windows - waiting);
                tw_mve_windows_inside(p, in, &window, left, count, windows + waiting * bytes);
            } else {
                tw_mve_windows_across(p, in, &window, left, windows + waiting * bytes);
            }
            x += count;
            waiting += count;
            if (waiting == params->windows) {
                tw_mve_pair_products(layer, windows, bytes, waiting, to);
                to += waiting * p->out.c;
                waiting = 0;
            }
        }
        if (waiting > 0 && (!goes_on || y + 1 == range.row_end)) {
            tw_mve_pair_products(layer, windows, bytes, waiting, to);
            waiting = 0;
        }
    }
}

/* The layer of the parameters. */
TW_INLINE tw_mve_layer layer_of(const tw_conv_mve *params)
{
    const tw_conv_shape *p = &params->conv;
    const int32_t bytes = tw_mve_up(p->kernel.h * p->kernel.w * p->in.c);
    const tw_mve_layer layer = {params->stream, bytes, p->out.c, p->out.c & 3, p->out_zero, p->out_min, p->out_max, params->sign};
    return layer;
}

/* Whether each window is a pixel of the map. */
TW_INLINE int is_pixel(const tw_conv_shape *p)
{
    return p->kernel.h == 1 && p->kernel.w == 1 && p->pad.h == 0 && p->pad.w == 0
        && (p->out.h - 1) * p->stride.h < p->in.h && (p->out.w - 1) * p->stride.w < p->in.w;
}

void tw_conv_2d_s8_mve_part(const tw_conv_mve *params, tw_view in, tw_view out, tw_range range, void *scratch)
{
    const tw_mve_layer layer = layer_of(params);
    int8_t *const windows = (int8_t *)scratch;
    windows[params->windows * layer.bytes - 1] = 0; /* touches the end of the scratch, which some ranges do not reach */
    if (range.row_begin >= range.row_end || range.col_begin >= range.col_end) {
        return;
    }
    if (is_pixel(&params->conv)) {
        pointwise(params, &layer, &in, &out, range, windows);
    } else {
        gathered(params, &layer, &in, &out, range, windows);
    }
}

void tw_conv_2d_s8_mve(const tw_conv_mve *p, const void *in, void *out, void *scratch)
{
    const tw_conv_shape *conv = &p->conv;
    if (is_pixel(conv) && conv->out.h == conv->in.h && conv->out.w == conv->in.w) {
        const tw_mve_layer layer = layer_of(p);
        int8_t *const windows = (int8_t *)scratch;
        windows[p->windows * layer.bytes - 1] = 0;
        multiply_pixels(p, &layer, (const int8_t *)in, conv->in.c, conv->in.h * conv->in.w, (int8_t *)out, windows);
    } else {
        tw_conv_mve line;
        if (tw_conv_is_column(conv)) {
            line = *p;
            tw_conv_turn_column(&line.conv);
            p = &line;
            conv = &line.conv;
        }
        tw_conv_2d_s8_mve_part(p, tw_whole(in, conv->in), tw_whole(out, conv->out), tw_all(conv->out), scratch);
    }
}
