/* tw_depthwise_conv_2d_s8_outliers_dsp.c - int8 depthwise convolution with the Arm DSP extension from lines of columns, some of
 * whose filters are computed one at a time from the same lines. */
#include "tw_depthwise_conv_2d_s8_dsp.h"

#include "tw_dsp.h"
#include "tw_outliers.h"

/* Element `i` of an array of 16-bit numbers. */
static inline int32_t half(const uint32_t *words, int32_t i)
{
    int16_t value;
    TW_COPY(&value, (const char *)words + 2 * i, sizeof value);
    return value;
}

/* The products of a filter with the window that begins at column `first` of the lines of its channel. */
static int32_t products(const tw_line *line, const uint32_t *lines, int32_t first, const uint32_t *weights, int32_t width, int32_t sum)
{
    int32_t tap = 0;
    for (int32_t row = 0; row < line->taps; ++row) {
        for (int32_t column = 0; column < width; ++column, ++tap) {
            sum = tw_signed((uint32_t)sum + (uint32_t)(half(lines, first + column) * half(weights, tap)));
        }
        lines += TW_LINE_ROW_WORDS;
    }
    return sum;
}

/* A tw_line_more: writes the outputs of the outliers among the channels of a line, which were those of zeros. */
static void add_outliers(const tw_depthwise_dsp *p, const tw_line *line, int32_t channel)
{
    const tw_conv_shape *conv = &p->base.conv;
    const int32_t width = conv->kernel.w, stride = conv->stride.w, words = (line->taps * width + 3) / 4 * 2;
    const uint32_t *outliers = p->base.stream + conv->in.c * (line->pairs * line->taps + 3), *filter = outliers + 1;
    for (uint32_t count = outliers[0]; count > 0; --count) {
        const int32_t plane = tw_signed(filter[0]) - channel;
        if (plane >= 0 && plane < TW_LINE_CHANNELS) {
            const uint32_t *lines = line->x + plane * TW_LINE_WORDS;
            int8_t *to = line->to + plane;
            for (int32_t y = 0; y < line->rows; ++y) {
                for (int32_t x = 0; x < line->count; ++x) {
                    const int32_t sum = products(line, lines, x * stride, filter + TW_OUTLIER_WORDS, width, tw_signed(filter[1]));
                    to[x * line->step] = tw_outlier_output(sum, filter, line->zero);
                }
                to += line->down;
                lines += line->stride * TW_LINE_ROW_WORDS;
            }
        }
        filter += TW_OUTLIER_WORDS + words;
    }
}

void tw_depthwise_conv_2d_s8_outliers_dsp_part(const tw_depthwise_dsp *p, tw_view in, tw_view out, tw_range range, void *scratch)
{
    tw_depthwise_lines(p, in, out, range, scratch, add_outliers);
}

TW_WHOLE_FORM_SCRATCH(tw_depthwise_conv_2d_s8_outliers_dsp, tw_depthwise_dsp,
                      tw_whole(in, p->base.conv.in), tw_whole(out, p->base.conv.out), p->base.conv.out)
