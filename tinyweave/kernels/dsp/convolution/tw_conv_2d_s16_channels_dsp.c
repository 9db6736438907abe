/* tw_conv_2d_s16_channels_dsp.c - convolution of int16 maps with a filter for each channel, with the Arm DSP extension: four
 * channels at a time.
 *
 * Cost: 9 instructions per tap of four channels. */
#include "tw_conv_s16.h"

#include "tw_conv_s16_over.h"
#include "tw_dsp.h"

static inline int16_t output(const tw_conv_s16_word *p, int32_t channel, int32_t sum)
{
    return (int16_t)tw_clamp(tw_smmulr(sum, p->factor[channel]), p->base.out_min, p->base.out_max);
}

/* A tw_pixel_s16. The last four channels may overlap those before. */
static void pixel(const tw_conv_s16_word *p, tw_runs_s16 runs, int16_t *to)
{
    const int32_t channels = p->base.in.c, x_step = runs.x_run;
    for (int32_t begin = 0; begin < channels; begin += 4) {
        const int32_t first = tw_min(begin, channels - 4);
        const int16_t *row = runs.x + first;
        const int8_t *w_row = runs.weights + first;
        const int32_t *const bias = p->bias + first;
        int32_t sum_0 = bias[0], sum_1 = bias[1], sum_2 = bias[2], sum_3 = bias[3];
        for (int32_t rows = runs.rows; rows > 0; --rows) {
            const int16_t *x = row;
            const int8_t *w = w_row;
            for (int32_t taps = runs.runs; taps > 0; --taps) {
                const uint32_t low = tw_word(x), high = tw_word(x + 2), word = tw_word(w);
                const uint32_t even = tw_sxtb16(word), odd = tw_sxtb16_odd(word);
                sum_0 = tw_smlabb(low, even, sum_0);
                sum_1 = tw_smlatb(low, odd, sum_1);
                sum_2 = tw_smlabt(high, even, sum_2);
                sum_3 = tw_smlatt(high, odd, sum_3);
                x += x_step;
                w += channels;
            }
            row += runs.x_row;
            w_row += runs.w_row;
        }
        to[first] = output(p, first, sum_0);
        to[first + 1] = output(p, first + 1, sum_1);
        to[first + 2] = output(p, first + 2, sum_2);
        to[first + 3] = output(p, first + 3, sum_3);
    }
}

void tw_conv_2d_s16_channels_dsp(const tw_conv_s16_word *p, const void *in, void *out)
{
    tw_conv_2d_s16_each(p, (const int16_t *)in, (int16_t *)out, p->base.in.c, pixel);
}
