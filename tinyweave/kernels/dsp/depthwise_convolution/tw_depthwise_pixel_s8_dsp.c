/* tw_depthwise_pixel_s8_dsp.c - int8 depthwise convolution of a column to one pixel, with the Arm DSP extension: four channels at
 * a time, tap by tap.
 *
 * Layers, weights: tw_depthwise_lean_dsp.h. Cost: tw_column_taps.h.
 */
#include "tw_depthwise_lean_dsp.h"

#include "tw_column_taps.h"

void tw_depthwise_pixel_s8_dsp(const tw_conv_dsp *params, const void *in, void *out)
{
    const tw_conv_shape *p = &params->conv;
    const int32_t channels = p->in.c, taps = p->kernel.h, zero = p->out_zero, sign = params->sign;
    const uint32_t *stream = params->stream;
    int8_t *const to = (int8_t *)out;

    for (int32_t begin = 0; begin < channels; begin += 4) {
        const int32_t channel = tw_min(begin, channels - 4);
        int32_t sums[4] = {tw_signed(stream[0]), tw_signed(stream[1]), tw_signed(stream[2]), tw_signed(stream[3])};
        stream = tw_column_taps((const int8_t *)in + channel, channels, taps, stream + 4, sums);
        stream = tw_column_finish(sums, stream, zero, sign, to + channel);
    }
    tw_clamp_all(to, channels, p->out_min, p->out_max);
}
