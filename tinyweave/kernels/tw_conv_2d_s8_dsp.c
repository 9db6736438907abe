/* tw_conv_2d_s8_dsp.c - int8 convolution with the Arm DSP extension: gathers the windows of two pixels and multiplies both. */
#include "tw_conv_2d_s8_dsp.h"

#include "tw_dsp.h"
#include "tw_pair.h"
#include "tw_windows.h"

void tw_conv_2d_s8_dsp_part(const tw_conv_dsp *params, tw_view in, tw_view out, tw_range range, void *scratch)
{
    const tw_conv *p = &params->conv;
    const int32_t channels = p->out.c, step = p->stride.w * p->in.c;
    int32_t slot = 0;
    tw_windows windows;
    tw_pair pair;
    tw_pair_inputs(&pair, (const uint32_t *)scratch, tw_windows_set(&windows, p, &in, scratch));
    pair.zero = p->out_zero;

    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, channels);
        const tw_window window = tw_window_rows(p, &in, y);
        int32_t left = range.col_begin * p->stride.w - p->pad.w;
        int32_t offset = window.row_offset + left * p->in.c;
        const int32_t end = window.rows == p->kernel.h ? p->in.w - p->kernel.w : -1; /* windows up to here are inside */
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            const int last = x + 1 == range.col_end && y + 1 == range.row_end;
            do { /* twice when the last one of all is alone */
                if (left >= 0 && left <= end) {
                    tw_windows_inside(&windows, offset, slot);
                } else {
                    tw_windows_across(&windows, &window, left, slot);
                }
                pair.to_1 = to;
                if (slot == 0) {
                    pair.to_0 = to;
                    pair.to_0_end = to + channels;
                }
                slot ^= 1;
            } while (slot == 1 && last);
            to += channels;
            left += p->stride.w;
            offset += step;
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
