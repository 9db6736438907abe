/* tw_conv_2d_s8_dsp.c - int8 convolution with the Arm DSP extension: gathers the windows of two pixels and multiplies both.
 *
 * Taps outside of the map hold the input's zero point, which the biases of the stream take off again.
 */
#include "tw_conv_2d_s8_dsp.h"

#include <string.h>

#include "tw_dsp.h"
#include "tw_pair.h"

/* Gathers a window whose pixels are whole words. */
static void gather(const tw_conv *p, const tw_view *in, tw_window *window, int32_t x, uint32_t *to, int32_t slot)
{
    const int32_t pixel = p->in.c / 4, zero = p->in_zero, above = window->row_tap / p->kernel.w;
    tw_window_cols(p, window, x);
    const int32_t before = window->tap - window->row_tap, cols = window->cols;
    const int32_t after = p->kernel.w - before - cols;
    int32_t offset = window->offset;

    if (above > 0) {
        to = tw_pair_fill(to, slot, zero, above * p->kernel.w * pixel);
    }
    for (int32_t row = 0; row < window->rows; ++row) {
        if (before > 0) {
            to = tw_pair_fill(to, slot, zero, before * pixel);
        }
        to = tw_pair_widen(to, slot, (const int8_t *)in->data + offset, cols * pixel);
        if (after > 0) {
            to = tw_pair_fill(to, slot, zero, after * pixel);
        }
        offset = tw_down(offset, window->step, window->ring);
    }
    const int32_t below = p->kernel.h - above - window->rows;
    if (below > 0) {
        tw_pair_fill(to, slot, zero, below * p->kernel.w * pixel);
    }
}

/* Gathers a window of any pixels; `bytes`, for what is put together of them, ends with zeros up to a multiple of four. */
static void gather_bytes(const tw_conv *p, const tw_view *in, tw_window *window, int32_t x, uint32_t *to, int32_t slot,
                         int8_t *bytes)
{
    const int32_t row_bytes = p->kernel.w * p->in.c, taps = p->kernel.h * row_bytes;
    tw_window_cols(p, window, x);
    const int32_t run = window->cols * p->in.c;
    int32_t offset = window->offset, rest = 0;
    int8_t *at = bytes + window->tap * p->in.c;

    if (run * window->rows < taps) {
        memset(bytes, p->in_zero, (size_t)taps);
    } else if (window->rows == 1) { /* all lies together; only the last bytes may be no word */
        rest = taps / 4 * 4;
        to = tw_pair_widen(to, slot, (const int8_t *)in->data + offset, taps / 4);
    }
    for (int32_t row = 0; row < window->rows; ++row) {
        const int8_t *from = (const int8_t *)in->data + offset;
        int32_t i = rest;
        for (; i + 4 <= run; i += 4) {
            tw_put_word(at + i, tw_word(from + i));
        }
        for (; i < run; ++i) {
            at[i] = from[i];
        }
        at += row_bytes;
        offset = tw_down(offset, window->step, window->ring);
    }
    tw_pair_widen(to, slot, bytes + rest, (taps - rest + 3) / 4);
}

void tw_conv_2d_s8_dsp_part(const tw_conv_dsp *params, tw_view in, tw_view out, tw_range range, void *scratch)
{
    const tw_conv *p = &params->conv;
    const int32_t quads = (p->kernel.h * p->kernel.w * p->in.c + 3) / 4, channels = p->out.c;
    uint32_t *const wide = (uint32_t *)scratch;
    int8_t *const bytes = (int8_t *)(wide + 4 * quads);
    int32_t slot = 0;
    tw_pair pair;
    tw_pair_inputs(&pair, wide, quads);
    pair.zero = p->out_zero;
    if (p->in.c % 4 != 0) {
        tw_put_word(bytes + 4 * quads - 4, 0); /* what lies past the window */
    }

    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, channels);
        tw_window window = tw_window_rows(p, &in, y);
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            const int last = x + 1 == range.col_end && y + 1 == range.row_end;
            do { /* twice when the last one of all is alone */
                if (p->in.c % 4 == 0) {
                    gather(p, &in, &window, x, wide, slot);
                } else {
                    gather_bytes(p, &in, &window, x, wide, slot, bytes);
                }
                pair.to_1 = to;
                if (slot == 0) {
                    pair.to_0 = to;
                    pair.to_0_end = to + channels;
                }
                slot ^= 1;
            } while (slot == 1 && last);
            to += channels;
            if (slot == 0) {
                tw_pair_products(&pair, params->stream, params->sign);
                tw_clamp_all(pair.to_0, channels, p->out_min, p->out_max);
                tw_clamp_all(pair.to_1, channels, p->out_min, p->out_max);
            }
        }
    }
}

void tw_conv_2d_s8_dsp(const tw_conv_dsp *p, const void *in, void *out, void *scratch)
{
    tw_conv_2d_s8_dsp_part(p, tw_whole(in, p->conv.in), tw_whole(out, p->conv.out), tw_all(p->conv.out), scratch);
}
