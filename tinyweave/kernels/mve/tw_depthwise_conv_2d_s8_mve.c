/* tw_depthwise_conv_2d_s8_mve.c - int8 depthwise convolution with the Arm MVE extension, sixteen channels at a time.
 * tw_mve_taps.h has the layers, the layout of the weights and the cost.
 *
 * A list holds the offset of each tap: in the map, or of zero points for taps in the padding.
 */
#include "tw_conv_mve.h"

#include "tw_mve.h"
#include "tw_mve_taps.h"

/* Sets the offset of each tap of a window from the view's data, or `outside`. left: the window's first column; before: bytes of a
 * row before the view; above, below: taps in rows outside the map. */
static void place(const tw_conv_shape *p, const tw_window *window, int32_t left, int32_t before, int32_t outside, int32_t above,
                  int32_t below, int32_t *tap)
{
    const int32_t width = p->kernel.w, rows = window->rows;
    tw_mve_fill_words(tap, outside, above);
    tap += above;
#if TW_HAS_MVE
    /* Four columns at a time, the last ones first: what a vector writes beyond its row is written again. */
    const int32x4_t others = vdupq_n_s32(outside);
    for (int32_t col = (width - 1) & -4; col >= 0; col -= 4) {
        const int32x4_t number = vreinterpretq_s32_u32(vidupq_n_u32((uint32_t)col, 1));
        const int32x4_t column = vaddq_n_s32(vmulq_n_s32(number, p->dilation.w), left);
        const mve_pred16_t is_outside = vcmpcsq_n_u32(vreinterpretq_u32_s32(column), (uint32_t)p->in.w); /* also if negative */
        const int32x4_t pixel = vmlaq_n_s32(vdupq_n_s32(-before), column, p->in.c);
        int32_t *to = tap + col, offset = window->row_offset + before; /* where a row begins in the ring */
        for (int32_t i = rows; i > 0; --i) {
            vstrwq_s32(to, vpselq_s32(others, vaddq_n_s32(pixel, offset), is_outside));
            to += width;
            offset = tw_down(offset, window->step, window->ring);
        }
    }
#else
    int32_t *to = tap, offset = window->row_offset + before;
    for (int32_t row = 0; row < rows; ++row) {
        for (int32_t col = 0; col < width; ++col) {
            const int32_t column = left + col * p->dilation.w;
            *to++ = tw_is_in(column, p->in.w) ? offset - before + column * p->in.c : outside;
        }
        offset = tw_down(offset, window->step, window->ring);
    }
#endif
    tw_mve_fill_words(tap + rows * width, outside, below);
}

/* Whether whole vectors of all taps down to `row` can be read: two further rows follow in memory, the first perhaps with a gap
 * at its end. */
static int may_read_on(const tw_view *in, int32_t h, int32_t row)
{
    return in->first_row == 0 && in->ring_height >= h && row + 2 < h && in->row_stride >= TW_MVE_LANES;
}

void tw_depthwise_conv_2d_s8_mve_part(const tw_depthwise_mve *params, tw_view in, tw_view out, tw_range range, void *scratch)
{
    const tw_conv_shape *p = &params->conv;
    const int32_t channels = p->in.c, stride = p->stride.w, taps = p->kernel.h * p->kernel.w;
    int8_t *const zeros = (int8_t *)scratch;
    int32_t *const list = (int32_t *)(void *)(zeros + tw_mve_up(channels));
    tw_mve_taps layer = {params->stream, list, zeros, taps, 0, 0, p->out_zero, p->out_min, p->out_max, params->sign, 0,
                         TW_MVE_EVEN};
    list[taps + 2] = 0; /* touches the end of the scratch, which some ranges do not reach */
    tw_fill(zeros, p->in_zero, tw_mve_up(channels));
    const int is_divisor = channels <= TW_MVE_LANES && (channels & (channels - 1)) == 0;
    const int32_t at_once = stride == 1 && is_divisor ? TW_MVE_LANES / channels : 1; /* pixels */
    const int32_t reach = (p->kernel.w - 1) * p->dilation.w;
    const int32_t needed = tw_min((range.col_end - 1) * stride - p->pad.w + reach + 1, p->in.w); /* columns */
    const int32_t inside = needed - at_once - reach; /* the last column of windows inside the map */
    const int8_t *const from = (const int8_t *)in.data;
    const int32_t outside = tw_mve_outside(zeros, from), before = in.first_col * channels;

    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, channels);
        tw_window window = tw_window_of(p, &in, y, p->in.c);
        layer.reads_on = may_read_on(&in, p->in.h, y * p->stride.h - p->pad.h + (p->kernel.h - 1) * p->dilation.h);
        layer.above = window.row_tap;
        layer.below = taps - window.row_tap - window.rows * p->kernel.w;
        int32_t x = range.col_begin;
        while (x < range.col_end) {
            const int32_t left = x * stride - p->pad.w;
            int32_t times = 1, together = 1;
            if (left >= 0 && left <= inside) {
                times = tw_min(range.col_end - x, (inside - left) / stride + at_once) / at_once;
                together = at_once;
            }
            place(p, &window, left, before, outside, layer.above, layer.below, list);
            tw_mve_taps_products(&layer, from, at_once * stride * channels, times, together * channels, to);
            x += times * together;
            to += times * together * channels;
        }
    }
}

void tw_depthwise_conv_2d_s8_mve(const tw_depthwise_mve *p, const void *in, void *out, void *scratch)
{
    const tw_conv_shape *conv = &p->conv;
    tw_depthwise_mve line;
    /* with a horizontal stride above 1, the stream does not repeat channels, as a row with stride 1 needs */
    if (tw_conv_is_column(conv) && (conv->stride.w == 1 || conv->stride.h > 1)) {
        line = *p;
        tw_conv_turn_column(&line.conv);
        p = &line;
        conv = &line.conv;
    }
    tw_depthwise_conv_2d_s8_mve_part(p, tw_whole(in, conv->in), tw_whole(out, conv->out), tw_all(conv->out), scratch);
}
