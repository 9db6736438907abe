/* tw_depthwise_conv_2d_s8_dsp.c - int8 depthwise convolution with the Arm DSP extension, four channels of a block of columns at
 * a time. */
#include "tw_depthwise_conv_2d_s8_dsp.h"

#include "tw_dsp.h"

/* Fills the lines of four channels from `channel` on. */
static void gather(const tw_conv *p, const tw_view *in, const tw_window *window, const tw_columns *columns, int32_t offset,
                   uint32_t *to)
{
    const int32_t above = window->row_tap / p->kernel.w, below = p->kernel.h - above - window->rows;
    for (int32_t i = 0; i < above; ++i, to += TW_LINE_ROW_WORDS) {
        tw_line_pad(columns, to);
    }
    for (int32_t i = 0; i < window->rows; ++i, to += TW_LINE_ROW_WORDS) {
        tw_line_fill(columns, to, (const int8_t *)in->data + offset);
        offset = tw_down(offset, window->step, window->ring);
    }
    for (int32_t i = 0; i < below; ++i, to += TW_LINE_ROW_WORDS) {
        tw_line_pad(columns, to);
    }
}

void tw_depthwise_conv_2d_s8_dsp_part(const tw_depthwise_dsp *params, tw_view in, tw_view out, tw_range range, void *scratch)
{
    const tw_conv *p = &params->base.conv;
    const int32_t channels = p->in.c;
    const int32_t taps = tw_line_taps(p->kernel.w), pairs = p->stride.w == 1 ? taps - 1 : taps / 2 + 1;
    const int32_t per_channel = pairs * p->kernel.h + 3;
    uint32_t *const lines = (uint32_t *)scratch;
    tw_columns columns;
    columns.padding = ((uint32_t)p->in_zero & 0xFFu) * 0x01010101u;
    columns.step = channels;
    tw_line line;
    const int32_t most = (params->block + 3) & ~3; /* narrow ranges leave the end of the scratch alone, but all of it is claimed */
    lines[(p->kernel.h * TW_LINE_CHANNELS - 1) * TW_LINE_WORDS + (((most - 1) * p->stride.w + taps + 1) >> 1) - 1] = 0;
    line.x = lines;
    line.step = channels;
    line.rows = p->kernel.h;
    line.pairs = pairs;
    line.zero = p->out_zero;
    line.sign = params->base.sign;

    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *block = (int8_t *)tw_pixel(&out, y, range.col_begin, channels);
        const tw_window window = tw_window_rows(p, &in, y);
        for (int32_t x = range.col_begin; x < range.col_end; x += params->block) {
            line.count = tw_min(params->block, range.col_end - x);
            const int32_t left = x * p->stride.w - p->pad.w, sums = (line.count + 3) & ~3;
            const int32_t words = ((sums - 1) * p->stride.w + taps + 1) >> 1;
            const int32_t end = tw_min(left + (line.count - 1) * p->stride.w + p->kernel.w, p->in.w); /* more is not there */
            const int32_t offset = window.row_offset + tw_columns_set(&columns, left, words, end) * channels;
            for (int32_t begin = 0; begin < channels; begin += TW_LINE_CHANNELS) {
                const int32_t channel = tw_min(begin, channels - TW_LINE_CHANNELS);
                gather(p, &in, &window, &columns, offset + channel, lines);
                line.words = params->base.stream + channel * per_channel;
                line.to = block + channel;
                params->line(&line);
            }
            tw_clamp_all(block, line.count * channels, p->out_min, p->out_max);
            block += line.count * channels;
        }
    }
}

void tw_depthwise_conv_2d_s8_dsp(const tw_depthwise_dsp *p, const void *in, void *out, void *scratch)
{
    const tw_conv *conv = &p->base.conv;
    tw_depthwise_conv_2d_s8_dsp_part(p, tw_whole(in, conv->in), tw_whole(out, conv->out), tw_all(conv->out), scratch);
}
