/* tw_conv_2d_s8_few_dsp.c - int8 convolution of single pixels to one or two channels, with the Arm DSP extension.
 *
 * Weights: the stream of tw_few_dsp.h, then a multiplier and a power per filter (tw_rescale_doubled). The kernels of
 * tw_conv_pairs.h would compute four channels.
 */
#include "tw_conv_dsp.h"

#include "tw_few_dsp.h"

/* Computes a range of the output of `units` channels, a number that the compiler knows. */
TW_INLINE void all_pixels(const tw_conv_dsp *params, tw_view in, tw_view out, tw_range range, int32_t units)
{
    const tw_conv *p = &params->conv;
    const int32_t depth = p->in.c, zero = p->out_zero, low = p->out_min, high = p->out_max, sign = params->sign;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *from = (const int8_t *)tw_pixel(&in, y, range.col_begin, depth);
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, units);
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            int32_t sums[TW_FEW];
            const uint32_t *factors = tw_few_sums(from, depth, params->stream, units, sums);
            for (int32_t i = 0; i < units; ++i, factors += 2) {
                const int32_t multiplier = tw_signed(factors[0]), power = tw_signed(factors[1]);
                to[i] = (int8_t)tw_clamp(tw_rescale_doubled(2 * sums[i], multiplier, power, zero, sign), low, high);
            }
            from += depth;
            to += units;
        }
    }
}

TW_FORMS(tw_conv_2d_s8_few_dsp, tw_conv_dsp, tw_whole(in, p->conv.in), tw_whole(out, p->conv.out), p->conv.out,
         p->conv.out.c == 1 ? all_pixels(p, in, out, range, 1) : all_pixels(p, in, out, range, 2))
