/* tw_fully_connected_s16.c - dense layer of int16 rows with int8 weights, portable C. */
#include "tw_fully_connected.h"

void tw_fully_connected_s16(const tw_fully_connected *p, const void *in, void *out)
{
    const int16_t *from = (const int16_t *)in;
    int16_t *to = (int16_t *)out;
    for (int32_t row = 0; row < p->layer.in.w; ++row, from += p->layer.in.c) {
        const int8_t *weights = p->weights;
        for (int32_t channel = 0; channel < p->layer.out.c; ++channel) {
            const int32_t index = p->layer.per_channel ? channel : 0;
            int32_t sum = 0;
            for (int32_t i = 0; i < p->layer.in.c; ++i) {
                sum += from[i] * *weights++;
            }
            sum = tw_requantize_once(tw_add_bias(sum, p->bias, channel), p->layer.multiplier[index], p->layer.shift[index]);
            *to++ = (int16_t)tw_clamp(sum, p->layer.out_min, p->layer.out_max);
        }
    }
}
