/* tw_average_pool_2d_s8_dsp.c - int8 average over a window, with the Arm DSP extension. tw_sums_dsp.h has the cost of sums; an
 * output takes about eight instructions more. */
#include "tw_pool_dsp.h"

#include "tw_sums_dsp.h"

/* What all outputs of a window share: the pixels, half as many, and the sum of away_from over the pixels. */
typedef struct { int32_t count, half, away, away_sum; } tw_average;

static inline tw_average average_of(const tw_pool *p, int32_t count)
{
    const tw_average average = {count, count / 2, p->away_from, p->away_from * count};
    return average;
}

/* The average of int8 values with this sum, rounded half away from away_from. */
static inline int8_t output(const tw_average *average, int32_t sum)
{
    const int32_t distance = sum - average->away_sum, sign = distance >> 31;
    return (int8_t)((distance + (average->half ^ sign) - sign) / average->count + average->away);
}

void tw_average_pool_2d_s8_dsp_part(const tw_pool *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t channels = p->in.c;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, channels);
        const int32_t top = y * p->stride.h - p->pad.h;
        const tw_span rows = tw_inside(top, p->kernel.h, 1, p->in.h);
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            const int32_t left = x * p->stride.w - p->pad.w;
            const tw_span cols = tw_inside(left, p->kernel.w, 1, p->in.w);
            const int32_t height = rows.end - rows.begin, width = cols.end - cols.begin;
            const int32_t offset = tw_offset(&in, top + rows.begin, left + cols.begin, channels);
            const tw_sums_window window = tw_sums_window_of(&in, offset, channels, height, width);
            const tw_average average = average_of(p, height * width);
            int32_t channel = 0;
            for (; average.count <= TW_SUMS_MOST && channel + 4 <= channels; channel += 4) {
                const tw_sums_lanes sums = tw_sums_of_window(&in, offset + channel, &window);
                to[channel] = output(&average, tw_lane(sums.even, 0));
                to[channel + 1] = output(&average, tw_lane(sums.odd, 0));
                to[channel + 2] = output(&average, tw_lane(sums.even, 1));
                to[channel + 3] = output(&average, tw_lane(sums.odd, 1));
            }
            for (; channel + 4 <= channels; channel += 4) {
                int32_t sums[4] = {0, 0, 0, 0};
                tw_sums_add_window(sums, &in, offset + channel, &window);
                for (int i = 0; i < 4; ++i) {
                    to[channel + i] = output(&average, sums[i]);
                }
            }
            const tw_pool_window all = {offset, height, width, channels};
            for (; channel < channels; ++channel) {
                to[channel] = output(&average, tw_pool_join(&in, &all, channel, TW_POOL_S8, 0, tw_plus));
            }
            tw_clamp_all(to, channels, p->out_min, p->out_max);
            to += channels;
        }
    }
}

void tw_average_pool_2d_s8_dsp_rows(const tw_pool *p, tw_view in, void *out, tw_range range, int32_t *sums)
{
    const int32_t channels = p->in.c;
    const tw_average average = average_of(p, p->in.h * p->in.w);
    int8_t *to = (int8_t *)out;
    for (int32_t channel = 0; range.row_begin == 0 && channel < channels; ++channel) {
        sums[channel] = 0;
    }
    tw_sums_add_range(sums, channels, &in, range);
    if (range.row_end == p->in.h) {
        for (int32_t channel = 0; channel < channels; ++channel) {
            to[channel] = output(&average, sums[channel]);
        }
        tw_clamp_all(to, channels, p->out_min, p->out_max);
    }
}

TW_WHOLE_FORM(tw_average_pool_2d_s8_dsp, tw_pool, tw_whole(in, p->in), tw_whole(out, p->out), p->out)
