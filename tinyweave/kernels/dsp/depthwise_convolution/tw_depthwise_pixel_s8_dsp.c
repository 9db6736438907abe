/* tw_depthwise_pixel_s8_dsp.c - int8 depthwise convolution of a column to one pixel, with the Arm DSP extension: four channels,
 * tap by tap.
 *
 * Layers, weights and scratch: tw_depthwise_lean_dsp.h.
 * Cost, fitted (layer_cycles.json): 4.2 cycles per MAC on a Cortex-M4, 2.8 on a Cortex-M7; rescaling not included.
 */
#include "tw_depthwise_lean_dsp.h"

#include "tw_dsp.h"

void tw_depthwise_pixel_s8_dsp(const tw_conv_dsp *params, const void *in, void *out)
{
    const tw_conv *p = &params->conv;
    const int32_t channels = p->in.c, zero = p->out_zero, sign = params->sign;
    const uint32_t *stream = params->stream;
    int8_t *const to = (int8_t *)out;

    for (int32_t begin = 0; begin < channels; begin += 4) {
        const int32_t channel = tw_min(begin, channels - 4);
        const int8_t *x = (const int8_t *)in + channel;
        int32_t sum0 = tw_signed(stream[0]), sum1 = tw_signed(stream[1]);
        int32_t sum2 = tw_signed(stream[2]), sum3 = tw_signed(stream[3]);
        stream += 4;
        for (int32_t taps = p->kernel.h; taps > 0; --taps) {
            const uint32_t four = tw_word(x), even = tw_sxtb16(four), odd = tw_sxtb16_odd(four);
            sum0 = tw_smlabb(even, stream[0], sum0);
            sum1 = tw_smlabb(odd, stream[1], sum1);
            sum2 = tw_smlatt(even, stream[0], sum2);
            sum3 = tw_smlatt(odd, stream[1], sum3);
            stream += 2;
            x += channels;
        }
        to[channel] = tw_rescale_doubled(sum0, tw_signed(stream[0]), tw_signed(stream[1]), zero, sign);
        to[channel + 1] = tw_rescale_doubled(sum1, tw_signed(stream[2]), tw_signed(stream[3]), zero, sign);
        to[channel + 2] = tw_rescale_doubled(sum2, tw_signed(stream[4]), tw_signed(stream[5]), zero, sign);
        to[channel + 3] = tw_rescale_doubled(sum3, tw_signed(stream[6]), tw_signed(stream[7]), zero, sign);
        stream += 8;
    }
    tw_clamp_all(to, channels, p->out_min, p->out_max);
}
