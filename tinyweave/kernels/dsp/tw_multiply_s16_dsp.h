/* tw_multiply_s16_dsp.h - int16 inputs times int8 weights with the Arm DSP extension: one window times four filters. */
#ifndef TW_MULTIPLY_S16_DSP_H
#define TW_MULTIPLY_S16_DSP_H

#include "tw_multiply_s16.h"

/* The sums of products with one or four filters, the first of them `first` filters after that of `runs`. */
tw_sums_s16 tw_sum_one_s16_dsp(const tw_runs_s16 *runs, int32_t first);
tw_sums_s16 tw_sum_four_s16_dsp(const tw_runs_s16 *runs, int32_t first);

/* A tw_multiply_s16. */
static inline tw_sums_s16 tw_multiply_s16_dsp(const tw_runs_s16 *runs, int32_t filters)
{
    const int32_t missing = TW_FILTERS_S16 - filters;
    tw_sums_s16 sums;
    if (missing > runs->before) {
        for (int32_t i = 0; i < filters; ++i) {
            sums.of[i] = tw_sum_one_s16_dsp(runs, i).of[0];
        }
        return sums;
    }
    sums = tw_sum_four_s16_dsp(runs, -missing); /* filters before these make them four */
    for (int32_t i = 0; missing > 0 && i < filters; ++i) {
        sums.of[i] = sums.of[missing + i];
    }
    return sums;
}

#endif
