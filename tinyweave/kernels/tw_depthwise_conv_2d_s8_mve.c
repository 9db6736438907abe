/* tw_depthwise_conv_2d_s8_mve.c - int8 depthwise convolution with the Arm MVE extension, sixteen channels at a time.
 *
 * Windows that lie inside the map are read where they are, others from a copy in which taps outside hold the input's zero point;
 * so are those at the end of what there is, beyond whose channels nothing may be read.
 */
#include "tw_depthwise_conv_2d_s8_mve.h"

#include "tw_mve.h"
#include "tw_mve_taps.h"

/* Copies the part of a window that lies inside the map, `count` channels from `channel` on. */
static void gather(const tw_conv *p, const tw_view *in, tw_window *window, int32_t x, int32_t channel, int32_t count, int8_t *to)
{
    const int32_t step = p->dilation.w * p->in.c;
    tw_window_cols(p, window, x);
    int32_t offset = window->offset + channel;
    tw_mve_fill(to, p->in_zero, p->kernel.h * p->kernel.w * TW_MVE_LANES);
    to += window->tap * TW_MVE_LANES;
    for (int32_t row = window->rows; row > 0; --row) {
        const int8_t *from = (const int8_t *)in->data + offset;
        int8_t *tap_to = to;
        for (int32_t col = window->cols; col > 0; --col) {
            tw_mve_copy(tap_to, from, count);
            from += step;
            tap_to += TW_MVE_LANES;
        }
        to += p->kernel.w * TW_MVE_LANES;
        offset = tw_down(offset, window->step, window->ring);
    }
}

void tw_depthwise_conv_2d_s8_mve_part(const tw_depthwise_mve *params, tw_view in, tw_view out, tw_range range, void *scratch)
{
    const tw_conv *p = &params->conv;
    const int32_t channels = p->in.c, stride = p->stride.w, taps = p->kernel.h * p->kernel.w;
    const int32_t block_words = TW_MVE_LANES * 3 + taps * (TW_MVE_LANES / 4);
    const int32_t at_once = stride == 1 && TW_MVE_LANES % channels == 0 ? TW_MVE_LANES / channels : 1; /* pixels */
    const int32_t reach = (p->kernel.w - 1) * p->dilation.w;
    /* windows up to here can be read where they are: beyond the channels of what is needed nothing is read */
    const int32_t needed = tw_min((range.col_end - 1) * stride - p->pad.w + reach + 1, p->in.w);
    const int32_t last = needed - reach - tw_mve_up(channels) / channels - (tw_mve_up(channels) % channels != 0);
    int8_t *const copy = (int8_t *)scratch;
    const int32_t copied_ring = taps * TW_MVE_LANES + 1;
    const tw_mve_window copied = {
        p->kernel.h, p->kernel.w, TW_MVE_LANES, p->kernel.w * TW_MVE_LANES, copied_ring,
        p->out_zero, p->out_min, p->out_max, params->sign,
    };
    tw_mve_window inside = copied;
    inside.step = p->dilation.w * channels;
    inside.row_step = p->dilation.h * in.row_stride;
    inside.ring = in.ring_height * in.row_stride;
    copy[taps * TW_MVE_LANES - 1] = 0; /* some ranges leave it alone, but all of it is claimed */

    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, channels);
        tw_window window = tw_window_rows(p, &in, y);
        const int32_t row_last = window.rows == p->kernel.h ? last : -1;
        int32_t x = range.col_begin;
        while (x < range.col_end) {
            const int32_t left = x * stride - p->pad.w, offset = window.row_offset + left * channels;
            const int is_inside = left >= 0 && left <= row_last;
            const int32_t pixels = is_inside ? at_once : 1, bytes = pixels * channels;
            const uint32_t *stream = params->stream;
            for (int32_t begin = 0; begin < bytes; begin += TW_MVE_LANES) {
                const int32_t count = tw_min(bytes - begin, TW_MVE_LANES);
                if (is_inside) {
                    tw_mve_taps(&inside, (const int8_t *)in.data, offset + begin, stream, count, to + begin);
                } else {
                    gather(p, &in, &window, x, begin, count, copy);
                    tw_mve_taps(&copied, copy, 0, stream, count, to + begin);
                }
                stream += block_words;
            }
            x += pixels;
            to += bytes;
        }
    }
}

void tw_depthwise_conv_2d_s8_mve(const tw_depthwise_mve *p, const void *in, void *out, void *scratch)
{
    tw_depthwise_conv_2d_s8_mve_part(p, tw_whole(in, p->conv.in), tw_whole(out, p->conv.out), tw_all(p->conv.out), scratch);
}
