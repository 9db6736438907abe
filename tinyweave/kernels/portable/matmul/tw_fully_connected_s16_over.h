/* tw_fully_connected_s16_over.h - the loops of dense layers of int16 rows, for kernels that differ in how they multiply. */
#ifndef TW_FULLY_CONNECTED_S16_OVER_H
#define TW_FULLY_CONNECTED_S16_OVER_H

#include "tw_fully_connected.h"
#include "tw_multiply_s16.h"

TW_INLINE void tw_fully_connected_s16_over(const tw_fully_connected *p, const int16_t *in, int16_t *to,
                                           tw_multiply_s16 *multiply)
{
    const int32_t depth = p->layer.in.c, units = p->layer.out.c;
    tw_runs_s16 runs = {in, p->weights, depth, 0, 1, 0, 0, 1, 0, depth};
    for (int32_t row = 0; row < p->layer.in.w; ++row) {
        runs.weights = p->weights;
        runs.before = 0;
        for (int32_t unit = 0, filters; unit < units; unit += filters) {
            filters = tw_min(units - unit, TW_FILTERS_S16);
            const tw_sums_s16 sums = multiply(&runs, filters);
            for (int32_t i = 0; i < filters; ++i) {
                const int32_t index = p->layer.per_channel ? unit + i : 0, sum = tw_add_bias(sums.of[i], p->bias, unit + i);
                const int32_t scaled = tw_requantize_once(sum, p->layer.multiplier[index], p->layer.shift[index]);
                *to++ = (int16_t)tw_clamp(scaled, p->layer.out_min, p->layer.out_max);
            }
            runs.weights += filters * depth;
            runs.before += filters;
        }
        runs.x += depth;
    }
}

#endif
