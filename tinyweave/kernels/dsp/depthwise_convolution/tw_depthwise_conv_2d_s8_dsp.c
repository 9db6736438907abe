/* tw_depthwise_conv_2d_s8_dsp.c - int8 depthwise convolution with the Arm DSP extension: four channels of a strip of rows and a
 * block of columns at a time, gathered to lines and multiplied by tw_line.c. */
#include "tw_depthwise_conv_2d_s8_dsp.h"

#include "tw_dsp.h"

/* Fills the padding of all lines, once for all channels; rows before `above` and after the input are padding throughout. */
static void pad(const tw_columns *columns, uint32_t *to, int32_t above, int32_t lines)
{
    for (int32_t i = 0; i < lines; ++i) {
        tw_line_pad(columns, to + i * TW_LINE_ROW_WORDS, i < above || i >= above + columns->rows);
    }
}

void tw_depthwise_lines(const tw_depthwise_dsp *params, tw_view in, tw_view out, tw_range range, void *scratch,
                        tw_line_more *more)
{
    const tw_conv_shape *p = &params->base.conv;
    const int32_t channels = p->in.c, across = p->stride.w, width = tw_line_taps(p->kernel.w);
    uint32_t *const lines = (uint32_t *)scratch;
    tw_columns columns;
    columns.padding = ((uint32_t)p->in_zero & 0xFFu) * 0x01010101u;
    columns.step = channels;
    columns.down = in.row_stride;
    columns.ring = in.ring_height * in.row_stride;
    tw_line line;
    line.x = lines;
    line.channels = TW_LINE_CHANNELS;
    line.down = out.row_stride;
    line.step = channels;
    line.stride = p->stride.h;
    line.taps = p->kernel.h;
    line.pairs = across == 1 ? width - 1 : width / 2 + 1;
    line.zero = p->out_zero;
    line.sign = params->base.sign;
    const int32_t per_channel = line.pairs * line.taps + 3;
    const int32_t most = (params->block + 3) & ~3; /* touches the end of the scratch, which narrow ranges do not reach */
    const int32_t most_lines = (params->rows - 1) * p->stride.h + p->kernel.h;
    lines[(most_lines * TW_LINE_CHANNELS - 1) * TW_LINE_WORDS + (((most - 1) * across + width + 1) >> 1) - 1] = 0;

    for (int32_t y = range.row_begin; y < range.row_end; y += line.rows) {
        line.rows = tw_min(tw_min(params->rows, range.row_end - y), out.ring_height - tw_slot(&out, y));
        const int32_t top = y * p->stride.h - p->pad.h, height = (line.rows - 1) * p->stride.h + p->kernel.h;
        const tw_span inside = tw_inside(top, height, 1, p->in.h);
        int8_t *block = (int8_t *)tw_pixel(&out, y, range.col_begin, channels);
        columns.rows = inside.end - inside.begin;
        for (int32_t x = range.col_begin; x < range.col_end; x += params->block) {
            line.count = tw_min(params->block, range.col_end - x);
            const int32_t left = x * across - p->pad.w, sums = (line.count + 3) & ~3;
            const int32_t words = ((sums - 1) * across + width + 1) >> 1;
            const int32_t end = tw_min(left + (line.count - 1) * across + p->kernel.w, p->in.w); /* of the columns needed */
            const int32_t first = tw_columns_set(&columns, left, words, end);
            const int32_t offset = tw_offset(&in, top + inside.begin, first, channels);
            uint32_t *const from = lines + inside.begin * TW_LINE_ROW_WORDS;
            pad(&columns, lines, inside.begin, height);
            for (int32_t begin = 0; begin < channels; begin += TW_LINE_CHANNELS) {
                const int32_t channel = tw_min(begin, channels - TW_LINE_CHANNELS);
                tw_line_fill(&columns, from, (const int8_t *)in.data, offset + channel);
                line.words = params->base.stream + channel * per_channel;
                line.to = block + channel;
                params->line(&line);
                if (more) {
                    more(params, &line, channel);
                }
            }
            for (int32_t i = 0; i < line.rows; ++i) {
                tw_clamp_all(block + i * out.row_stride, line.count * channels, p->out_min, p->out_max);
            }
            block += line.count * channels;
        }
    }
}

void tw_depthwise_conv_2d_s8_dsp_part(const tw_depthwise_dsp *p, tw_view in, tw_view out, tw_range range, void *scratch)
{
    tw_depthwise_lines(p, in, out, range, scratch, 0);
}

TW_WHOLE_FORM_SCRATCH(tw_depthwise_conv_2d_s8_dsp, tw_depthwise_dsp,
                      tw_whole(in, p->base.conv.in), tw_whole(out, p->base.conv.out), p->base.conv.out)
