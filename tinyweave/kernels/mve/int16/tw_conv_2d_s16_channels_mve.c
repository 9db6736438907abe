/* tw_conv_2d_s16_channels_mve.c - convolution of int16 maps with a filter for each channel, with the Arm MVE extension: four
 * channels at a time. */
#include "tw_conv_s16.h"

#include "tw_conv_s16_over.h"
#include "tw_outputs_s16_mve.h"

/* A tw_pixel_s16. */
static void pixel(const tw_conv_s16_word *p, tw_runs_s16 runs, int16_t *to)
{
    const int32_t channels = p->base.in.c, x_step = runs.x_run;
#if TW_HAS_MVE
    for (int32_t channel = 0; channel < channels; channel += 4) {
        const mve_pred16_t some = vctp32q((uint32_t)(channels - channel));
        const int16_t *row = runs.x + channel;
        const int8_t *w_row = runs.weights + channel;
        int32x4_t sum = vldrwq_z_s32(p->bias + channel, some);
        for (int32_t rows = runs.rows; rows > 0; --rows) {
            const int16_t *x = row;
            const int8_t *w = w_row;
            for (int32_t taps = runs.runs; taps > 0; --taps) {
                sum = vaddq_s32(sum, vmulq_s32(vldrhq_z_s32(x, some), vldrbq_z_s32(w, some)));
                x += x_step;
                w += channels;
            }
            row += runs.x_row;
            w_row += runs.w_row;
        }
        tw_outputs_s16_mve(p, channel, sum, some, to + channel);
    }
#else
    for (int32_t channel = 0; channel < channels; ++channel) {
        int32_t sum = p->bias[channel];
        for (int32_t row = 0; row < runs.rows; ++row) {
            for (int32_t tap = 0; tap < runs.runs; ++tap) {
                sum += runs.x[row * runs.x_row + tap * x_step + channel] * runs.weights[row * runs.w_row + tap * channels + channel];
            }
        }
        to[channel] = tw_output_s16_mve(p, channel, sum);
    }
#endif
}

void tw_conv_2d_s16_channels_mve(const tw_conv_s16_word *p, const void *in, void *out)
{
    tw_conv_2d_s16_each(p, (const int16_t *)in, (int16_t *)out, p->base.in.c, pixel);
}
