/* tw_fully_connected_s16.c - dense layer of int16 rows with int8 weights, portable C. */
#include "tw_fully_connected.h"

void tw_fully_connected_s16(const tw_fully_connected *p, const void *in, void *out)
{
    const int16_t *from = (const int16_t *)in;
    int16_t *to = (int16_t *)out;
    for (int32_t row = 0; row < p->in.w; ++row, from += p->in.c) {
        const int8_t *weights = p->weights;
        for (int32_t channel = 0; channel < p->out.c; ++channel) {
            const int32_t index = p->per_channel ? channel : 0;
            int32_t sum = 0;
            for (int32_t i = 0; i < p->in.c; ++i) {
                sum += from[i] * *weights++;
            }
            sum = tw_requantize_once(tw_add_bias(sum, p->bias, channel), p->multiplier[index], p->shift[index]);
            *to++ = (int16_t)tw_clamp(sum, p->out_min, p->out_max);
        }
    }
}
