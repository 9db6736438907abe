/* tw_mean_s8_dsp.c - int8 mean over any axes with the Arm DSP extension, four channels at a time; tw_sums_dsp.h has the cost. */
#include "tw_reduction.h"

#include "tw_mean.h"
#include "tw_sums_dsp.h"

/* A tw_mean_outputs. */
static int8_t *outputs(const tw_mean *p, const int8_t *from, const tw_mean_runs *runs, int8_t *to)
{
    const tw_mean local = *p; /* a store of an int8_t could change *p */
    const tw_view in = {tw_viewed(from), runs->outer, runs->rows, 0, 0};
    const tw_sums_window window = {runs->inner, runs->rows, runs->cols};
    for (int32_t channel = 0; channel < runs->inner; channel += 4) {
        int32_t sums[4] = {runs->first, runs->first, runs->first, runs->first};
        const int32_t channels = tw_min(runs->inner - channel, 4);
        if (channels == 4) {
            tw_sums_add_window(sums, &in, channel, &window);
        }
        for (int32_t row = 0; channels < 4 && row < runs->rows; ++row) {
            tw_sums_add_four(sums, channels, from + channel + row * runs->outer, runs->inner, runs->cols);
        }
        for (int32_t i = 0; i < channels; ++i) {
            *to++ = tw_mean_finish(&local, sums[i]);
        }
    }
    return to;
}

TW_MEAN_WHOLE_FORMS(tw_mean_s8_dsp, outputs)

void tw_mean_s8_dsp_rows(const tw_mean *p, tw_view in, void *out, tw_range rows, int32_t *sums)
{
    const tw_range range = tw_mean_pixels(p, &in, rows);
    for (int32_t channel = 0; range.row_begin == 0 && channel < p->kept[1]; ++channel) {
        sums[channel] = -p->in_zero * p->reduced[0];
    }
    tw_sums_add_range(sums, p->kept[1], &in, range);
    tw_mean_end(p, range, sums, out);
}
